"""`python -m labkit` is the same as `labkit`, for a terminal that does not find the command."""

import sys

try:
    from labkit.cli import main
except ModuleNotFoundError as error:
    sys.exit(
        f"labkit: the package {error.name!r} is missing. Run: pip install -r requirements.txt. "
        "`python -m labkit.environment` examines this computer without it."
    )

if __name__ == "__main__":
    main()
