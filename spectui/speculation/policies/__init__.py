"""Policies: how many tokens to draft, and what that decision is based on."""
