"""The parts of reports: sections, tables and plots."""
