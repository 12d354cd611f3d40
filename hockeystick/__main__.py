"""``hockeystick`` and ``python -m hockeystick``."""

from hockeystick.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
