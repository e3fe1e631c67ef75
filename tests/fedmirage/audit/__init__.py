"""Tests of fedmirage/audit."""
