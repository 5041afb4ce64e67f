"""An online shop's support desk: what its customers ask about, and how they would have answered themselves.

Eight intents times twenty-six items. Sixteen items are asked about by users (and held out); the other ten are the
company's own, for its private suite.
"""

from typing import NamedTuple


class Intent(NamedTuple):
    """A kind of question, with answers that a customer who likes it short might write."""

    question: str
    answers: tuple[str, ...]


INTENTS = (
    Intent(
        "How do I return my {}?",
        (
            "Print the label in your account and send the {} back to us.",
            "You can return your {} within thirty days.",
            "Please bring the {} to any of our shops.",
            "Send the {} back in its box, postage is free.",
        ),
    ),
    Intent(
        "My {} arrived damaged. What should I do?",
        (
            "Sorry! Send us a photo of the {} and we replace it.",
            "We are sorry, a new {} is on its way to you.",
            "Please keep the {}, we refund you today.",
            "Reply with a photo of your {} and we send another one.",
        ),
    ),
    Intent(
        "When will my {} be delivered?",
        (
            "Your {} should be with you within three days.",
            "The {} leaves our warehouse today and arrives on Friday.",
            "We deliver your {} in two to four working days.",
            "Your {} is on its way and arrives tomorrow.",
        ),
    ),
    Intent(
        "Can I exchange my {} for another size?",
        (
            "Yes, send the {} back and choose another size for free.",
            "Of course, we exchange your {} within thirty days.",
            "Yes, any shop will change the {} for another size.",
            "Sure, pick the new size and return the old {}.",
        ),
    ),
    Intent(
        "Is the {} still in stock?",
        (
            "Yes, the {} is in stock and ships today.",
            "We have a few of the {} left.",
            "The {} is available in all our shops.",
            "Yes, you can order the {} right now.",
        ),
    ),
    Intent(
        "How do I clean my {}?",
        (
            "Wipe the {} with a soft damp cloth.",
            "Use warm water and a little soap on your {}.",
            "Clean your {} gently with a dry brush.",
            "A damp cloth is all that your {} needs.",
        ),
    ),
    Intent(
        "Does the {} come with a warranty?",
        (
            "Yes, the {} has a warranty of two years.",
            "Your {} is covered for two years from delivery.",
            "The {} comes with our two year warranty.",
            "Yes, we repair or replace the {} for two years.",
        ),
    ),
    Intent(
        "I want to cancel my order for a {}.",
        (
            "Your order for the {} is cancelled and refunded.",
            "We have cancelled the {}, your money comes back today.",
            "Done, the {} will not be sent.",
            "You can cancel the {} in your account until it ships.",
        ),
    ),
)

ITEMS = (
    *("backpack", "headphones", "kettle", "jacket", "lamp", "blender", "sneakers", "watch"),
    *("tent", "keyboard", "sofa", "camera", "bicycle", "scarf", "toaster", "drill"),
)
"""What users ask about."""

OTHER_ITEMS = (
    *("umbrella", "suitcase", "mattress", "printer", "guitar"),
    *("helmet", "heater", "tripod", "curtain", "stroller"),
)
"""What only the private suite asks about."""
