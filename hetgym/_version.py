"""The version of hetgym, which the distribution, results and artefacts carry."""

VERSION = "0.1.0"
