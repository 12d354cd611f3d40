"""Runs an experiment: python -m benchmarks.experiments NAME [--write] [--workers N] [--work FOLDER]."""

import sys

from benchmarks.experiments.command import main

sys.exit(main())
