"""Prints what CloudFormation makes of template.yaml with given parameters.

Reads a JSON list of {parameter: value} on standard input, and prints one of templates: the SAM translator's output with
conditions decided and parameters put in. What only a deployment knows, such as the ARN of a resource, stays an intrinsic.
With --lint it prints what cfn-lint finds in each instead.
"""

import json
import os
import pathlib
import re
import sys

os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")

from cfnlint.api import ManualArgs, lint  # noqa: E402
from samtranslator.translator.transform import transform  # noqa: E402
from samtranslator.yaml_helper import yaml_parse  # noqa: E402

# Stands for what is left out.
NOTHING = object()


class NoManagedPolicies:
    """The template names none, and asking AWS for the list would need credentials."""

    def load(self):
        return {}


def translated(parameters):
    """The SAM translator's output for template.yaml."""
    root = pathlib.Path(__file__).resolve().parent.parent
    template = yaml_parse((root / "template.yaml").read_text())
    # `sam build` and `sam package` put a bucket here before the translator sees it.
    for resource in template["Resources"].values():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::Serverless::Function" and "InlineCode" not in properties:
            properties["CodeUri"] = "s3://bucket/code.zip"
    return transform(template, parameters, NoManagedPolicies())


class Rendering:
    """A template with its parameters put in."""

    def __init__(self, template, given):
        self.template = template
        self.values = {name: self.value(name, given) for name in template["Parameters"]}
        unknown = given.keys() - self.values.keys()
        if unknown:
            raise ValueError(f"no such parameter: {sorted(unknown)}")

    def value(self, name, given):
        parameter = self.template["Parameters"][name]
        value = str(given.get(name, parameter.get("Default")))
        allowed = [str(one) for one in parameter.get("AllowedValues", [value])]
        if value not in allowed or not re.fullmatch(parameter.get("AllowedPattern", ".*"), value):
            raise ValueError(f"{name} may not be {value}")
        if parameter["Type"] == "CommaDelimitedList":
            return [part for part in value.split(",") if part]
        return value

    def holds(self, condition):
        """Whether a condition holds: its name, or what the section of conditions says of it."""
        if isinstance(condition, str):
            return self.holds(self.template["Conditions"][condition])
        ((kind, argument),) = condition.items()
        match kind:
            case "Condition":
                return self.holds(argument)
            case "Fn::Equals":
                left, right = (str(self.put_in(side)) for side in argument)
                return left == right
            case "Fn::Not":
                return not self.holds(argument[0])
            case "Fn::And":
                return all(map(self.holds, argument))
            case "Fn::Or":
                return any(map(self.holds, argument))
        raise ValueError(f"no condition: {condition}")

    def put_in(self, node):
        """A part of the template with conditions decided and parameters put in."""
        if isinstance(node, list):
            return [item for item in map(self.put_in, node) if item is not NOTHING]
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            ((kind, argument),) = node.items()
            if kind == "Fn::If":
                condition, then, otherwise = argument
                return self.put_in(then if self.holds(condition) else otherwise)
            if kind == "Ref" and argument == "AWS::NoValue":
                return NOTHING
            if kind == "Ref" and argument in self.values:
                return self.values[argument]
            if kind == "Fn::Sub":
                return self.substituted(argument)
        entries = {key: self.put_in(value) for key, value in node.items()}
        return {key: value for key, value in entries.items() if value is not NOTHING}

    def substituted(self, argument):
        text, names = (argument, {}) if isinstance(argument, str) else argument
        names = self.put_in(names)
        known = {**self.values, **{name: text for name, text in names.items() if isinstance(text, str)}}
        left = {name: value for name, value in names.items() if name not in known}
        text = re.sub(r"\$\{(\w+)\}", lambda found: str(known.get(found[1], found[0])), text)
        if left:
            return {"Fn::Sub": [text, left]}
        return {"Fn::Sub": text} if "${" in text else text

    def render(self):
        def there(section):
            for name, entry in self.template[section].items():
                condition = entry.get("Condition")
                if condition is None or self.holds(condition):
                    yield name, self.put_in({key: value for key, value in entry.items() if key != "Condition"})

        return {
            "AWSTemplateFormatVersion": self.template["AWSTemplateFormatVersion"],
            # What cfn-lint is told to leave, and why.
            "Metadata": {"cfn-lint": self.template["Metadata"]["cfn-lint"]},
            "Resources": dict(there("Resources")),
            "Outputs": dict(there("Outputs")),
        }


def findings(template):
    return [f"{one.rule.id} {one.message}" for one in lint(json.dumps(template), config=ManualArgs(regions=["us-east-1"]))]


def main():
    renderings = [Rendering(translated(given), given).render() for given in json.load(sys.stdin)]
    if "--lint" in sys.argv[1:]:
        renderings = [findings(template) for template in renderings]
    json.dump(renderings, sys.stdout)


if __name__ == "__main__":
    main()
