"""What pyproject.toml can't say: the C library that is built with cffi."""

from setuptools import setup

setup(
    cffi_modules=["spacy_elmo/bilm/kernels/native/build.py:ffi"],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
