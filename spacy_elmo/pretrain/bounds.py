"""Bounds of the settings of optimizers and schedules."""

from typing import Annotated

from pydantic import Field

from ..bilm import MAX_NUMBER

Steps = Annotated[int, Field(ge=0)]
# Finite, and far from where float32 ends.
Factor = Annotated[float, Field(ge=0, le=MAX_NUMBER)]
Share = Annotated[float, Field(ge=0, lt=1)]
