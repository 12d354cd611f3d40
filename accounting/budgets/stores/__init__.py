"""Stores of durable ledgers: a SQLite file, or a PostgreSQL database."""
