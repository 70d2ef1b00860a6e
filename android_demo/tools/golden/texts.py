"""The texts of the golden vectors: ordinary sentences, and text chosen to break tokenizers."""

from pathlib import Path
from typing import Final

import numpy as np

__all__ = ["EVERYDAY", "everyday_sentences", "hostile_texts", "random_texts"]

EVERYDAY: Final = Path(__file__).parents[3] / "lite_nlp" / "assets" / "everyday.en-de.tsv"

_FIRST_SURROGATE: Final = 0xD800
_LAST_SURROGATE: Final = 0xDFFF
_LAST_CODE_POINT: Final = 0x10FFFF

#: A few words in many scripts, some of them right to left, some without spaces, some with marks that combine.
_SCRIPTS: Final = (
    "Η γρήγορη καφέ αλεπού πηδάει πάνω από το τεμπέλικο σκυλί.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Հայերեն լեզուն հնդեվրոպական լեզու է։",
    "ქართული ენა მშვენიერია. ᲥᲐᲠᲗᲣᲚᲘ ᲛᲗᲐᲕᲠᲣᲚᲘ",
    "אני אוהב לקרוא ספרים בעברית, גם בְּנִקּוּד.",
    "أحبُّ قراءةَ الكتبِ باللغةِ العربية، أليس كذلك؟",
    "میں اردو پڑھتا ہوں۔ آپ کا نام کیا ہے؟",
    "ܐܒܘܢ ܕܒܫܡܝܐ",
    "ދިވެހިބަސް",
    "मैं हिन्दी में लिखता हूँ। क्या आप समझते हैं?",
    "আমি বাংলায় গান গাই।",
    "ਮੈਂ ਪੰਜਾਬੀ ਬੋਲਦਾ ਹਾਂ।",
    "હું ગુજરાતી બોલું છું.",
    "ମୁଁ ଓଡ଼ିଆ କହେ।",
    "நான் தமிழ் பேசுகிறேன்.",
    "నేను తెలుగు మాట్లాడతాను.",
    "ನಾನು ಕನ್ನಡ ಮಾತನಾಡುತ್ತೇನೆ.",
    "ഞാൻ മലയാളം സംസാരിക്കുന്നു.",
    "මම සිංහල කතා කරමි.",
    "ฉันรักภาษาไทยมากที่สุดในโลก",
    "ຂ້ອຍເວົ້າພາສາລາວ",
    "བོད་སྐད་ཤེས་ཀྱི་མེད།",
    "မြန်မာစကား ပြောတတ်လား။",
    "ខ្ញុំនិយាយភាសាខ្មែរ។",
    "አማርኛ እናገራለሁ። ሰላም፡ዓለም።",
    "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ ꭳꮃꭹ",
    "ᐃᓄᒃᑎᑐᑦ ᐅᖃᓕᒪᓕᖅᑐᖓ",
    "᚛ᚑᚌᚐᚋ᚜ ᛖᛚᛞᛖᚱ ᚠᚢᚦᚨᚱᚲ",
    "ᠮᠣᠩᠭᠣᠯ ᠬᠡᠯᠡ",
    "日本語の文章です。「引用」もあります！ほんとうですか？",
    "ｶﾀｶﾅ ﾊﾝｶｸ ｶﾞｷﾞｸﾞ ＡＢＣ　ｘｙｚ　１２３",
    "我喜歡學習漢語。你呢？𠀀𠀁𪚥 㐀㐁",
    "한국어를 배우고 있어요. 각각 한 글",
    "ꀊꆈꌠꉙ ꔆꔚ ꕙꔤ",
    "𐌲𐌿𐍄𐌹𐍃𐌺 𐐔𐐯𐑅𐐨𐑉𐐯𐐻 𐑖𐑱𐑝𐑾𐑯 𞤀𞤁𞤂",
    "𓀀𓁐𓃭 𒀀𒀁𒐏 𐎠𐎡 𐤀𐤁",
    "𝐌𝐚𝐭𝐡 𝒻𝓊𝓃𝒸𝓉𝒾ℴ𝓃 𝔣𝔯𝔞𝔨𝔱𝔲𝔯 𝟘𝟙𝟚 ∑∫√ ≤≥≠ ℵ₀",
    "Ĉu vi parolas Esperanton? Eĥoŝanĝo ĉiuĵaŭde.",
    "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "Zażółć gęślą jaźń. Árvíztűrő tükörfúrógép.",
    "İstanbul'da IĞDIR ığdır i̇ İ I ı",
    "Đây là tiếng Việt: ề ễ ệ ở ỡ ợ",
    "ΣΊΣΥΦΟΣ ΟΔΥΣΣΕΎΣ Σ ΑΣ ς σ",
    "Straße STRASSE ẞ ß ŉ ǆ ǅ Ǆ ﬀ ﬁ ﬄ ﬅ",
)

_EMOJI: Final = (
    "Nice 👍🏽 work 👩‍👩‍👧‍👦 and 👨🏿‍🚀!",
    "🇩🇪🇫🇷🇬🇧 flags 🏴󠁧󠁢󠁳󠁣󠁴󠁿 🏳️‍🌈",
    "keycaps 1️⃣ 2️⃣ #️⃣ *️⃣ ☎︎ ☎️",
    "🙂🙃🤪😀😃😄😁😆🥹🫠🫥",
    "❤️‍🔥 ❤‍🔥 ✌️✌✌🏻 👁️‍🗨️",
    "a👍b 👍's 👍1 👍👍👍 don't👍",
    "🧑🏻‍❤️‍💋‍🧑🏿",
)

_MARKS: Final = (
    "e\u0301 é E\u0301 É a\u0308 ä A\u030a Å \u212b",
    "\u0301alone \u0301\u0302\u0303 x\u0323\u0307 x\u0307\u0323",
    "Z\u0351\u036b\u0343a\u0328\u0360\u031bl\u0321\u0353g\u0321\u0353o\u0322\u0359",
    "q\u0307\u0323 \u1e69 s\u0323\u0307 s\u0307\u0323 \u1e9b\u0323",
    "\u1100\u1161\u11a8 \uac01 \u1100\u1161 \u1161\u11a8",
    "\u0915\u093c \u0958 \u09af\u09bc \u09df \u0f71\u0f72 \u0f73",
    "\u2126 \u03a9 \u2160\u2161 \u2460 \u00bd \u00b2 \ufb01 \ufdfa \u3392 \uff21",
    "e" + "\u0301" * 40 + " end",
    "\u0344 \u0340 \u0341 \u0374 \u037e \u0387 \u1fbe",
    "\U0001d15e \U0001d1bb \U0002f800 \uf900 \ufa0e",
)

_CONTROLS: Final = (
    "a\u0000b",
    "\u0000",
    "\u0001\u0002\u0003 \u001b[31mred\u001b[0m",
    "line\u0085next\u0085\u0085 x",
    "one\u2028two\u2029three",
    "tab\tin\t\tside\t",
    "form\ffeed\vvertical",
    "mixed\nnew\r\nlines\r\rhere\n\n\nend",
    "\n",
    "\r\n",
    "\r",
    " \n ",
    "\u001c\u001d\u001e\u001f between",
    "\u007f\u0080\u0081\u009f",
    "\ufeffwith a mark",
    "zero\u200bwidth\u200cnon\u200djoin\u2060er",
    "soft\u00adhyphen non\u2011breaking",
    "\u202eright to left\u202c and \u2066isolated\u2069",
    "tag\U000e0001\U000e0041\U000e007f",
    "\ud7ff \ue000 \uf8ff \ufdd0 \ufffd \ufffe \uffff",
    "\U0010ffff \U0001fffe \U000f0000",
)

_SPACES: Final = (
    "",
    " ",
    "  ",
    "   ",
    " leading",
    "  leading",
    "trailing ",
    "trailing   ",
    "in  side   of    it",
    "a" + " " * 100 + "b",
    " " * 500,
    "\t" * 70,
    "\n" * 70,
    "a \u00a0b\u00a0 c\u00a0\u00a0d",
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a x",
    "\u3000ideographic\u3000\u3000space\u205f\u202f\u1680\u180e.",
    " \t\n mixed \t \n spaces \r\n\t",
    "x\u2003\u2003y \u2003z\u2003 w",
    "1  2   3    4",
    ".  .   .    .",
)

_CONTRACTIONS: Final = (
    "I'm you're he's they've we'll I'd can't",
    "I’m you’re he’s they’ve we’ll I’d can’t",
    "I'M YOU'RE HE'S THEY'VE WE'LL I'D CAN'T",
    "'s't're've'm'll'd 's 't 're 've 'm 'll 'd",
    "'''s ''ll '' ' 'ss 'tt 'rere 'lll 'x",
    "it''s it'\u0301s o'clock rock'n'roll 'tis y'all'd've",
    "dogs' don't' 'quoted' ‘quoted’ “quoted”",
    "1's 2'll 3'd .'s !'t ä's é't 日's",
    "don`t donʼt don＇t don′t",
)

_DIGITS: Final = (
    "0123456789 12,345.67 1e10 0x1F 3.14159",
    "٠١٢٣٤٥٦٧٨٩ ۰۱۲۳ ०१२३ ০১২৩ ๐๑๒๓ ༠༡༢༣ ០១២៣",
    "Ⅳ ⅷ ½ ⅔ ² ³ ⁴ ₅ ① ⑳ ㊿ 〇 一二三 𐄇 𝟎𝟏 🄂",
    "a1b2c3 1a2b3c 99bottles x²y³ H₂O",
    "1" * 200,
    "+49 (0)30 123456-78 #1 №5 5% 5‰ $5 5€ £5",
    "2026-11-21T06:00:00Z 12:34:56",
)

_MIXED: Final = (
    "a",
    "A",
    "é",
    "日",
    "😀",
    ".",
    "'",
    "_snake_case camelCase SCREAMING kebab-case",
    "https://example.org/path?q=1&r=%20#frag user@example.org",
    "<s> </s> <pad> <unk> [CLS] <|endoftext|>",
    "Ġ Ċ Ġhello âĢĻ Ã¤ ĠĠ",
    '{"key": ["value", 1, null]} \\n \\u0041 \\',
    "C:\\Users\\name\\file.txt /usr/bin/env ~/.config",
    "!!! ??? ... … ‥ —– -- --- ~~~ ***",
    "©®™ §¶†‡ •· «» ‹› „“ ‚‘ ¿¡",
    "naïve café résumé Zoë coöperate",
    "Ein Mann geht.Ohne Leerzeichen.Weiter!Und?Ja",
    "x" * 300,
    "ä" * 150,
    "ab" * 150,
    "the " * 100,
    "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen",
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore.",
    "mid\u00e4\u0308dle \u01c5 \u1f88 \u0390 \u1fb7 \u0149 \u1e96 \u0130",
    "\u2c2f\u2c5f \ua64a\ua64b \ua7ae \uab70 \u10a0\u2d00 \u1c90\u10d0 \U00010400\U00010428 \U00016e40",
)


def everyday_sentences(count: int) -> list[tuple[str, str]]:
    """The first ``count`` of the shipped pairs, English and German."""
    lines = EVERYDAY.read_text(encoding="utf-8").splitlines()[:count]
    return [(source, target) for source, target in (line.split("\t") for line in lines)]


def hostile_texts() -> list[str]:
    """Texts chosen by hand: scripts, emoji, marks, controls, spaces, contractions, digits."""
    groups = (_SCRIPTS, _EMOJI, _MARKS, _CONTROLS, _SPACES, _CONTRACTIONS, _DIGITS, _MIXED)
    return [text for group in groups for text in group]


def random_texts(count: int, *, seed: int) -> list[str]:
    """Strings of 1 to 24 characters, each drawn from one of several ranges; equal seeds give equal strings.

    No surrogate is among them, so that each is text; unassigned code points and noncharacters are.
    """
    random = np.random.default_rng(seed)
    return ["".join(_random_character(random) for _ in range(int(random.integers(1, 25)))) for _ in range(count)]


def _random_character(random: np.random.Generator) -> str:
    ranges = (
        (0x00, 0x7F),
        (0x20, 0x7E),
        (0x80, 0x24F),
        (0x250, 0x7FF),
        (0x300, 0x36F),
        (0x800, 0x1FFF),
        (0x2000, 0x2BFF),
        (0x2C00, 0x33FF),
        (0xA000, 0xD7FF),
        (0xE000, 0xFFFF),
        (0x10000, 0x1FFFF),
        (0x20000, _LAST_CODE_POINT),
    )
    common = " \t\n\u00a0\u0085'’sStTmMdDlL19.,!?\u0301\u200d"
    kind = int(random.integers(0, len(ranges) + 3))
    if kind >= len(ranges):
        return common[int(random.integers(0, len(common)))]
    first, last = ranges[kind]
    code_point = int(random.integers(first, last + 1))
    if _FIRST_SURROGATE <= code_point <= _LAST_SURROGATE:
        raise ValueError(f"range {first:#x} to {last:#x}: expected no surrogates, found U+{code_point:04X}")
    return chr(code_point)
