"""From events to ε and δ: one engine a file, and the best of their bounds."""
