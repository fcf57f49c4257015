"""Deployments that earlier versions left, and the program that freezes one."""
