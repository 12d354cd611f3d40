"""Events of noisy iterations whose last iterate alone is published: hidden states."""
