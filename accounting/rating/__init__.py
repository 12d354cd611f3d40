"""Accountants of other libraries, rated on the same compositions."""
