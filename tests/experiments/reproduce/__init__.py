"""Tests of the papers' tables, recorded runs, pages and queues."""
