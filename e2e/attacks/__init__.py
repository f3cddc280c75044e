"""Attacks of a tenant with rights in one namespace, and how much work they cause while another tenant's pod starts."""
