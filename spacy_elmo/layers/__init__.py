"""The biLM inside Thinc: Docs -> spans.py -> encoder.py (-> shim.py) -> mix.py, which
the component and every listener.py do with weights of their own."""
