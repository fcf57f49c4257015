"""Deployments of earlier versions, and the program that freezes one."""
