"""Rates of a membership test with their intervals, and equal logit margins."""
