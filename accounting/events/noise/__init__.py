"""Events of added noise, over the reals and over the integers."""
