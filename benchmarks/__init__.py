"""Speed as ratios: each module measures its contestants side by side in one run and prints a table."""
