"""Rules are pure functions from the evidence to a finding, or to None; each module has its list RULES."""
