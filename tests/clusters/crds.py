"""Strict offline checks of custom resources against the CRDs in the dask-kubernetes wheel.

A real server silently drops fields it does not know; here they are errors.
"""

from importlib.resources import files
from typing import Any

import jsonschema
import yaml

FOLDER = "operator/deployment/helm/dask-kubernetes-operator/crds"


def schemas() -> dict[tuple[str, str], Any]:
    """JSON schemas by version and kind."""
    found = {}
    for file in (files("dask_kubernetes") / FOLDER).iterdir():
        if not file.name.endswith(".yaml"):
            continue
        for crd in yaml.load_all(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            for version in crd["spec"]["versions"]:
                key = f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"]
                found[key] = strict(version["schema"]["openAPIV3Schema"], root=True)
    return found


def strict(schema: Any, *, root: bool = False) -> Any:
    """An OpenAPI schema as JSON schema in which unknown fields are errors."""
    if not isinstance(schema, dict):
        return schema
    made = dict(schema)
    if made.get("x-kubernetes-int-or-string"):
        made.pop("format", None)
        made["type"] = ["integer", "string"]
    if made.pop("nullable", False) and isinstance(made.get("type"), str):
        made["type"] = [made["type"], "null"]
    if "properties" in made:
        made["properties"] = {key: strict(value) for key, value in made["properties"].items()}
        if root:
            string = {"type": "string"}
            made["properties"] |= {"apiVersion": string, "kind": string, "metadata": {"type": "object"}}
        if "additionalProperties" not in made and not made.get("x-kubernetes-preserve-unknown-fields"):
            made["additionalProperties"] = False
    for key in ("items", "additionalProperties", "not"):
        if isinstance(made.get(key), dict):
            made[key] = strict(made[key])
    for key in ("allOf", "anyOf", "oneOf"):
        if key in made:
            made[key] = [strict(each) for each in made[key]]
    return made


def errors(document: dict[str, Any], known: dict[tuple[str, str], Any]) -> list[str]:
    """What is wrong with a custom resource."""
    schema = known[document["apiVersion"], document["kind"]]
    found = jsonschema.Draft7Validator(schema).iter_errors(document)
    return [f"{'/'.join(map(str, each.absolute_path))}: {each.message[:160]}" for each in found]
