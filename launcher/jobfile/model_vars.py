"""The models of variables: one for each type."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, TypeAdapter

from launcher.jobfile.model_base import VAR_NAME, EnvName, Model, kind_tag


class _VarBase(Model):
    help: str = Field("", description="What the variable is for.", examples=["passes over the data"])
    from_env: EnvName | None = Field(
        None,
        description="Environment variable that gives the value where --var does not.",
        examples=["HF_HOME"],
    )


class IntVar(_VarBase):
    """A variable that is a whole number."""

    type: Literal["int"] = Field(description="The type of the value.", examples=["int"])
    default: int | None = Field(None, description="The value where none is given.", examples=[3])
    min: int | None = Field(None, description="The smallest value allowed.", examples=[1])
    max: int | None = Field(None, description="The largest value allowed.", examples=[100])
    choices: list[int] | None = Field(None, description="The values allowed.", examples=[[1, 2, 4]])


class FloatVar(_VarBase):
    """A variable that is a number."""

    type: Literal["float"] = Field(description="The type of the value.", examples=["float"])
    default: float | None = Field(None, description="The value where none is given.", examples=[0.1])
    min: float | None = Field(None, description="The smallest value allowed.", examples=[0.0])
    max: float | None = Field(None, description="The largest value allowed.", examples=[1.0])
    choices: list[float] | None = Field(None, description="The values allowed.", examples=[[0.1, 0.01]])


class StrVar(_VarBase):
    """A variable that is text."""

    type: Literal["str"] = Field(description="The type of the value.", examples=["str"])
    default: str | None = Field(None, description="The value where none is given.", examples=["fp32"])
    choices: list[str] | None = Field(None, description="The values allowed.", examples=[["fp32", "bf16"]])


class BoolVar(_VarBase):
    """A variable that is true or false."""

    type: Literal["bool"] = Field(description="The type of the value.", examples=["bool"])
    default: bool | None = Field(None, description="The value where none is given.", examples=[False])


Var = Annotated[
    Annotated[IntVar, Tag("<int>")]
    | Annotated[FloatVar, Tag("<float>")]
    | Annotated[StrVar, Tag("<str>")]
    | Annotated[BoolVar, Tag("<bool>")],
    Discriminator(kind_tag),
]
Vars = dict[Annotated[str, Field(pattern=VAR_NAME)], Var]

VARS: TypeAdapter[dict[str, IntVar | FloatVar | StrVar | BoolVar]] = TypeAdapter(Vars)
