"""The command that rates accountants and auditors side by side."""
