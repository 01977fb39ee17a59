"""Training recipes that make the papers' models: name -> a victim's public side and its secrets."""

from divulge.victims.recipes import RECIPES, Victim, make

__all__ = ["RECIPES", "Victim", "make"]
