"""Samplers of the reverse conditional q(ε|z)."""

from uivi._types import Draw, ReverseDraws, ReverseInfo
from uivi.reverse.amortised import Amortised
from uivi.reverse.base import AbstractPerDrawSampler, AbstractReverseSampler, Reversed, jump, sample_reverse
from uivi.reverse.blackjax import BlackJAX
from uivi.reverse.by_particle import ByParticle
from uivi.reverse.compose import Compose
from uivi.reverse.coupled import Coupled
from uivi.reverse.exact import Exact
from uivi.reverse.hmc import HMC
from uivi.reverse.importance import Importance
from uivi.reverse.isir import ISIR
from uivi.reverse.learned_flow import LearnedFlow
from uivi.reverse.proposals import AbstractProposal, FittedProposal, FromMixing, Learned, from_mixing
from uivi.reverse.step_size import AbstractStepSize, AdaptBetween, AuthorsRule, FixedStep

__all__ = [
    "HMC",
    "ISIR",
    "AbstractPerDrawSampler",
    "AbstractProposal",
    "AbstractReverseSampler",
    "AbstractStepSize",
    "AdaptBetween",
    "Amortised",
    "AuthorsRule",
    "BlackJAX",
    "ByParticle",
    "Compose",
    "Coupled",
    "Draw",
    "Exact",
    "FittedProposal",
    "FixedStep",
    "FromMixing",
    "Importance",
    "Learned",
    "LearnedFlow",
    "ReverseDraws",
    "ReverseInfo",
    "Reversed",
    "from_mixing",
    "jump",
    "sample_reverse",
]
