"""Loops of training and of distillation."""
