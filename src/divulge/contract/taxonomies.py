"""Public lists of what can go wrong with a model, with the versions that were read: their ids are renumbered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from divulge.contract.finding import TaxonomyId


@dataclass(frozen=True)
class Taxonomy:
    """One list: what it is, and its entries that are about what an attack on a trained model can do."""

    name: str
    version: str
    about: str
    "What it asks for, in a sentence."
    entries: Mapping[str, str]
    "Id -> what it is called there."

    def ids(self, *chosen: str) -> tuple[TaxonomyId, ...]:
        return tuple(TaxonomyId(self.name, self.version, id, self.entries[id]) for id in chosen)


EDPB = Taxonomy(
    "EDPB Opinion 28/2024",
    "17 December 2024",
    "Paragraph 55 names the attacks that a model's claim to hold no personal data should be tested against.",
    {
        "¶55 (i)": "attribute and membership inference",
        "¶55 (ii)": "exfiltration",
        "¶55 (iii)": "regurgitation of training data",
        "¶55 (iv)": "model inversion",
        "¶55 (v)": "reconstruction attacks",
    },
)
AI_ACT = Taxonomy(
    "AI Act",
    "Regulation (EU) 2024/1689",
    "Article 15(5) asks of high-risk systems that they withstand these.",
    {
        "Art. 15(5), data poisoning": "attacks on the training data set",
        "Art. 15(5), model poisoning": "attacks on pre-trained components",
        "Art. 15(5), model evasion": "adversarial examples",
        "Art. 15(5), confidentiality": "confidentiality attacks",
        "Art. 15(5), model flaws": "model flaws",
    },
)
NIST = Taxonomy(
    "NIST AI 100-2",
    "E2025",
    "A taxonomy of adversarial machine learning; these are its attacks on predictive models.",
    {
        "NISTAML.011": "Model Poisoning",
        "NISTAML.012": "Clean-label Poisoning",
        "NISTAML.013": "Data Poisoning",
        "NISTAML.014": "Energy-latency",
        "NISTAML.021": "Clean-label Backdoor",
        "NISTAML.022": "Evasion",
        "NISTAML.023": "Backdoor Poisoning",
        "NISTAML.024": "Targeted Poisoning",
        "NISTAML.025": "Black-box Evasion",
        "NISTAML.031": "Model Extraction",
        "NISTAML.032": "Reconstruction",
        "NISTAML.033": "Membership Inference",
        "NISTAML.034": "Property Inference",
    },
)
ATLAS = Taxonomy(
    "MITRE ATLAS",
    "5.6.0",
    "What adversaries do to systems with machine learning; these are its techniques against a trained model.",
    {
        "AML.T0015": "Evade AI Model",
        "AML.T0018": "Manipulate AI Model",
        "AML.T0020": "Poison Training Data",
        "AML.T0024.000": "Infer Training Data Membership",
        "AML.T0024.001": "Invert AI Model",
        "AML.T0024.002": "Extract AI Model",
        "AML.T0029": "Denial of AI Service",
        "AML.T0040": "AI Model Inference API Access",
        "AML.T0044": "Full AI Model Access",
    },
)
OWASP = Taxonomy(
    "OWASP ML Top 10",
    "2023",
    "The ten risks of machine learning that its authors find the most pressing.",
    {
        "ML01": "Input Manipulation Attack",
        "ML02": "Data Poisoning Attack",
        "ML03": "Model Inversion Attack",
        "ML04": "Membership Inference Attack",
        "ML05": "Model Theft",
        "ML06": "AI Supply Chain Attacks",
        "ML07": "Transfer Learning Attack",
        "ML08": "Model Skewing",
        "ML09": "Output Integrity Attack",
        "ML10": "Model Poisoning",
    },
)
ALL = (EDPB, AI_ACT, NIST, ATLAS, OWASP)

CONFIDENTIALITY = AI_ACT.ids("Art. 15(5), confidentiality")
HYPERPARAMETERS = (
    *CONFIDENTIALITY, *NIST.ids("NISTAML.031"), *ATLAS.ids("AML.T0024.002", "AML.T0044"), *OWASP.ids("ML05"),
)  # fmt: skip
"The nearest that these lists have: none names hyperparameters."
EXTRACTION = (
    *EDPB.ids("¶55 (ii)"), *CONFIDENTIALITY, *NIST.ids("NISTAML.031"), *ATLAS.ids("AML.T0040", "AML.T0024.002"),
    *OWASP.ids("ML05"),
)  # fmt: skip
"Of a model by asking it. That weights are exfiltrated is arguable; where personal data follow from them it matters."
RECONSTRUCTION = (
    *EDPB.ids("¶55 (iv)", "¶55 (v)"), *CONFIDENTIALITY, *NIST.ids("NISTAML.032"), *ATLAS.ids("AML.T0044", "AML.T0024.001"),
    *OWASP.ids("ML03"),
)  # fmt: skip
"Of training data from weights."
INVERSION = (
    *EDPB.ids("¶55 (iv)", "¶55 (v)"), *CONFIDENTIALITY, *NIST.ids("NISTAML.032"), *ATLAS.ids("AML.T0040", "AML.T0024.001"),
    *OWASP.ids("ML03"),
)  # fmt: skip
"Of a model that only answers, towards its training data."
MEMBERSHIP = (
    *EDPB.ids("¶55 (i)"), *CONFIDENTIALITY, *NIST.ids("NISTAML.033"), *ATLAS.ids("AML.T0024.000"), *OWASP.ids("ML04"),
)  # fmt: skip
POISONING = (
    *AI_ACT.ids("Art. 15(5), data poisoning"), *NIST.ids("NISTAML.013"), *ATLAS.ids("AML.T0020"), *OWASP.ids("ML02"),
)  # fmt: skip
