"""Events of single answers: selections, thresholds, reports and other mechanisms with few outcomes."""
