"""List policies: a network looks at a problem once, and a list scheduler decodes what it says."""
