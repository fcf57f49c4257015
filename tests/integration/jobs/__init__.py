"""Tests of the jobs as programs, through failures, moves and upgrades."""
