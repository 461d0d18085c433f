"""Every number that a training run depends on, in one place."""

from dataclasses import asdict, dataclass
from pathlib import Path

TRAINING = Path(__file__).resolve().parent.parent

# Written lines are split by author. These authors are never trained on: their lines calibrate.
LEFT_OUT_AUTHORS = ("written_12", "written_16", "written_31", "written_35")
# Whole sets that are never trained on.
LEFT_OUT_SETS = ("garak", "giskard", "patt_taksec", "skill_scanner_raw", "memory_poison_small")
# Repositories of the remaining sets that are never trained on, whatever set a line of theirs is in.
LEFT_OUT_REPOSITORIES = (
    "robertsong2019/openclaw-workspace",
    "AmitabhainArunachala/clawd",
    "SuperInstance/quality-gate-stream",
    "kindomLee/openclaw-workspace-template",
    "Mdx2025/brainx-v2",
    "cisco-ai-defense/mcp-scanner",
    "rexcoleman/memory-poisoning-persistence",
    "seojoonkim/prompt-guard",
    "NVIDIA/garak",
    "Emadamx/garak-memory-poisoning",
    "TakSec/Prompt-Injection-Everywhere",
    "swisskyrepo/PayloadsAllTheThings",
    "aws-samples/sample-agent-memory-poisoning-defense",
    "openguardrails/moltguard",
)

# Lines of a set per epoch, harmless ones in other languages than English aside. What is not named here is
# used whole. Other lines come in the next epoch.
PER_EPOCH = {
    "ws_train": 2600,
    "agent_files": 450,
    "cursor_rules": 400,
    "til_jbranchaud": 300,
    "tldr_commands": 550,
    "persona_chat": 250,
    "persona_dialogue": 150,
    "peg_docs": 550,
    "taskmaster": 80,
    "jailbreak_classification_benign": 250,
    "sec_talk": 850,
    "asb": 300,
    "spikee": 600,
    "tasktracker": 500,
    "purplellama": 400,
    "embedded_train": 600,
}


@dataclass(frozen=True)
class Settings:
    """One training run."""

    seed: int = 20261121
    # Layers of the base model that are kept, from below.
    layers: tuple[int, ...] = (0, 1, 2, 3)
    # Tokens of the base vocabulary that are kept by rank, besides the seen ones and all characters.
    base_tokens: int = 12000
    # Subwords of other languages and scripts that are added, at most.
    added_tokens: int = 4000
    # Tokens of a line that are trained on; the run time reads 128.
    max_tokens: int = 96
    # Epochs of each run, each with its own seed; what is shipped has the mean of their weights. Runs from
    # one base that are averaged err less than each, and no layer is so steep that rounding moves a logit
    # (Wortsman et al., Model soups, 2022).
    epochs: tuple[int, ...] = (3, 5)
    # Real tokens of a batch, about: the lines of a batch are of similar length.
    batch_tokens: int = 1536
    rate: float = 1e-4
    # Tokens that are new, and the outputs, learn from nothing.
    new_rate: float = 1e-3
    weight_decay: float = 0.01
    dropout: float = 0.1
    warmup: float = 0.06
    # Weight of the loss that wants an attack above its twin by a margin.
    pair_weight: float = 0.5
    pair_margin: float = 2.0
    # Weight of benign lines against attacks; above 1 because false alarms cost most.
    benign_weight: float = 1.5
    # Share of lines that are seen as one of their sentences.
    sentence_share: float = 0.15
    # Benign lines that the model of the epoch before took for attacks, per epoch.
    mined: int = 1500
    label_smoothing: float = 0.02
    # Work folders of networks to learn from, of any number of layers but with the same vocabulary.
    teachers: tuple[str, ...] = ()
    # Weight of what the teachers say; the labels keep theirs.
    teacher_weight: float = 2.0
    # Lines in all, 0 for no limit; to try the whole way in a minute.
    limit: int = 0
    threads: int = 1
    # Matrix products in bfloat16, where the processor or the accelerator has it.
    half: bool = True

    def as_dict(self) -> dict:
        return asdict(self)
