"""Drawings of an accountant graph as SVG and as Mermaid text, and the representations in notebooks."""
