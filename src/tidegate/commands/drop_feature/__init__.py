"""Dropping a table feature: may it go, what it would take, and the drop itself."""

from tidegate.commands.drop_feature.drop import drop_feature
from tidegate.commands.drop_feature.plan import Plan, plan
from tidegate.commands.drop_feature.removal import Estimate, Removal, Rewriter, Work
from tidegate.commands.drop_feature.removals import REMOVALS

__all__ = ["Estimate", "Plan", "REMOVALS", "Removal", "Rewriter", "Work", "drop_feature", "plan"]
