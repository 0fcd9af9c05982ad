"""The version of hetgym: what its distribution, results and artefacts carry."""

VERSION = "0.1.0"
