"""Synthesizes haystacks, from a topic to verified documents."""

from summhay_ray.synth.audit import (
    Labels,
    audit_sample,
    audit_tables,
    by_haystack,
    checked_tables,
    haystack_tables,
    read_audit,
    write_audit,
)
from summhay_ray.synth.checking.faulty import Faults, faulty
from summhay_ray.synth.checking.given_haystack import ExistingCheck, verify_haystack
from summhay_ray.synth.checking.outline_checks import is_english, lacks_a_fact, leak
from summhay_ray.synth.checking.rows import OFFLINE
from summhay_ray.synth.checking.words import quoted as is_quoted
from summhay_ray.synth.checking.words import read as read_words
from summhay_ray.synth.making.asking import Group, ModelAsker, TopicRecipe
from summhay_ray.synth.making.bounds import Bounds, CallTotals, bounds
from summhay_ray.synth.making.domains import Domain, domain_from, load_domain, parse_domain
from summhay_ray.synth.making.kinds import Asker, Difficulty, Shape, Synthesized, Task, Topic, Unverified
from summhay_ray.synth.making.placement import check_placement
from summhay_ray.synth.making.prompting import task_of
from summhay_ray.synth.making.synthesis import absent_subjects, absent_subtopics, synthesize
from summhay_ray.synth.offline_writer import OfflineWriter

__all__ = [
    "OFFLINE",
    "Asker",
    "Bounds",
    "CallTotals",
    "Difficulty",
    "Domain",
    "ExistingCheck",
    "Faults",
    "Group",
    "Labels",
    "ModelAsker",
    "OfflineWriter",
    "Shape",
    "Synthesized",
    "Task",
    "Topic",
    "TopicRecipe",
    "Unverified",
    "absent_subjects",
    "absent_subtopics",
    "audit_sample",
    "audit_tables",
    "bounds",
    "by_haystack",
    "check_placement",
    "checked_tables",
    "domain_from",
    "faulty",
    "haystack_tables",
    "is_english",
    "is_quoted",
    "lacks_a_fact",
    "leak",
    "load_domain",
    "parse_domain",
    "read_audit",
    "read_words",
    "synthesize",
    "task_of",
    "verify_haystack",
    "write_audit",
]
