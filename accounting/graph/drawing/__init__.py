"""Pictures of an accountant graph: SVG, Mermaid, notebooks."""
