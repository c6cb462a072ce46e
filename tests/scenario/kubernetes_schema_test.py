"""Validates the example for Kubernetes with the schemas of its versions, without unknown fields.

Usage: kubernetes_schema_test.py SOURCE_FOLDER, with the interpreter of scripts/test_python
"""
import pathlib
import sys
import unittest

import kubernetes_validate
import yaml

EXAMPLE = pathlib.Path(sys.argv.pop(1)) / "configs" / "kubernetes_job.yaml"
# The oldest version that applies podReplacementPolicy by default, and the newest with a schema
# here.
VERSIONS = ["1.29", kubernetes_validate.latest_version()]


class Schema(unittest.TestCase):
    def setUp(self):
        self.resources = list(yaml.safe_load_all(EXAMPLE.read_text()))

    def test_each_resource_is_valid(self):
        for resource in self.resources:
            for version in VERSIONS:
                with self.subTest(kind=resource["kind"], version=version):
                    kubernetes_validate.validate(resource, version, strict=True)

    def test_invalid_field_is_rejected(self):
        job = self.resources[1]
        job["spec"]["podReplacementPolicies"] = job["spec"].pop("podReplacementPolicy")
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(job, VERSIONS[-1], strict=True)


if __name__ == "__main__":
    unittest.main()
