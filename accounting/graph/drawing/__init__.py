"""Pictures of an accountant graph: SVG, DOT, Mermaid, notebooks."""
