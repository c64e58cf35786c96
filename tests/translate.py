"""Prints what CloudFormation is given for template.yaml: the SAM translator's output, as JSON."""

import json
import os
import pathlib
import sys

os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")

from samtranslator.translator.transform import transform  # noqa: E402
from samtranslator.yaml_helper import yaml_parse  # noqa: E402


class NoManagedPolicies:
    """The template names none, and asking AWS for the list would need credentials."""

    def load(self):
        return {}


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    template = yaml_parse((root / "template.yaml").read_text())
    # `sam build` and `sam package` put a bucket here before the translator sees it.
    del template["Globals"]["Function"]["CodeUri"]
    for resource in template["Resources"].values():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::Serverless::Function" and "InlineCode" not in properties:
            properties["CodeUri"] = "s3://bucket/code.zip"
    json.dump(transform(template, {}, NoManagedPolicies()), sys.stdout)


if __name__ == "__main__":
    main()
