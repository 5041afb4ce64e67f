"""Scorers: pure functions from an answer to a number in [0, 1] with its reason. Reward and evaluation share them."""

from headrace_scoring.rules import Check, RuleScore, judge_rule, rule_problem, score_rule
from headrace_scoring.words import count_words

__all__ = ["Check", "RuleScore", "count_words", "judge_rule", "rule_problem", "score_rule"]
