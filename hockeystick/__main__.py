"""``hockeystick`` and ``python -m hockeystick``."""

from hockeystick._cli.program import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
