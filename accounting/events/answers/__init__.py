"""Events of single answers: selections, thresholds, reports and other laws over few outcomes."""
