"""`python -m labkit.environment` is `labkit check` with nothing but Python itself."""

import sys

from labkit.environment import check

if __name__ == "__main__":
    report = check()
    print(report)
    sys.exit(0 if report.is_ready else 1)
