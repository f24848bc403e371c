"""Explain an exception that PyTorch raised: the line, its operands, the rule it broke, the likely cause, the fix."""
