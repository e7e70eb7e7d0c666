"""Every message a user can meet, with a code, the cause and the way out.

Errors are raised as ``ValueError(Errors.EL001.format(...))`` (or the builtin that fits);
warnings go through ``warnings.warn(Warnings.ELW01.format(...))``.
"""


class _Coded(type):
    """Puts the code in front of its message: ``Errors.EL001`` -> ``[EL001] ...``."""

    def __getattribute__(cls, code: str) -> str:
        message = super().__getattribute__(code)
        if code.startswith("EL") and isinstance(message, str):
            return f"[{code}] {message}"
        return message


class Errors(metaclass=_Coded):
    # Model folders and files
    EL001 = (
        "No biLM found in '{path}'. A model folder holds either 'config.json' and "
        "'weights.safetensors', or 'options.json' and one '*.hdf5' file."
    )
    EL002 = "Can't read '{path}' as JSON: {error}. The file is damaged or not a model's."
    EL003 = "'{path}': {problem}. Is this the options file of these weights?"
    EL004 = (
        "Can't read '{path}' as an HDF5 file: {error}. The file is truncated or of "
        "another format; download it again and compare its size and hash."
    )
    EL005 = (
        "'{path}' holds several HDF5 files ({names}). Keep the one that belongs to "
        "'options.json' in the folder."
    )
    EL006 = "'{path}' has no array '{name}'. These are not the weights of this model."
    EL007 = (
        "Array '{name}' in '{path}' has shape {found}, but the sizes in the "
        "configuration ask for {expected}."
    )
    EL008 = (
        "Array '{name}' in '{path}' holds NaN or infinite values. Vectors made from it "
        "would be meaningless; take an undamaged copy of the weights."
    )
    EL009 = (
        "Array '{name}' in '{path}' is {problem}. Only plain floating-point arrays "
        "stored in the file itself are read."
    )
    EL010 = (
        "Can't read '{path}' as safetensors: {error}. The file is truncated or of "
        "another format."
    )
    EL011 = (
        "'{path}' holds arrays that the configuration does not know: {names}. These "
        "are not the weights of this model."
    )
    EL012 = (
        "The weights in '{path}' have fingerprint {found}, but '{config}' was written "
        "with {expected}. One of the two files was changed or damaged; restore both "
        "from the same save."
    )
    EL013 = (
        "Can't write '{path}': {error}. What was there before is unchanged; free some "
        "space or choose another place, and save again."
    )
    EL014 = (
        "'{path}' was written by a newer format ({found}) than this version of "
        "spacy-elmo reads ({known}). Upgrade spacy-elmo."
    )
    # The biLM
    EL020 = "biLM configuration: {problem}."
    EL021 = "Unknown start state '{start}'. Choose 'zeros' or 'boundary'."
    EL022 = (
        "'{path}' has word-embedding input, which needs the vocabulary that its rows "
        "stand for: a text file 'vocab.txt', one word a line, beside the weights."
    )
    EL023 = "The vocabulary '{path}' has {found} words for {expected} embedding rows."
    EL024 = "The carried state has {found} rows, but the batch has {expected} sentences."
    EL025 = (
        "encode() takes a list of sentences, each a list of strings; found {found}. "
        "Split the text into tokens first."
    )
    EL026 = "batch_tokens must be at least 1, found {found}."
    EL027 = "The bilm-tf format can't hold this model: {problem}."
    # Training text and trainer
    EL030 = "Can't read the text file '{path}': {error}."
    EL031 = (
        "'{path}' is not UTF-8 text (near line {line}: {error}). Convert it first, for "
        "instance with 'iconv -t UTF-8'."
    )
    EL032 = "spaCy has no tokenizer for the language '{lang}': {error}."
    EL033 = "There is no text to train on: every file is empty or only white space."
    EL034 = (
        "The vocabulary of '{path}' must start with <S>, </S>, <UNK>; it starts with "
        "{found}."
    )
    EL035 = (
        "The text has {tokens} tokens, too few for {batch} streams. Take more text, or a "
        "batch_size of {fits} at most."
    )
    EL036 = (
        "'{path}' has no softmax ('vocab.txt' and 'softmax.safetensors'), so it can't "
        "predict words. Published weights come without one: train one with 'spacy elmo "
        "pretrain' and 'init' set to this folder."
    )
    EL037 = "Training configuration '{path}': {problem}."
    EL038 = (
        "The loss became {loss} at step {step}. The best model so far is in '{path}'. "
        "Lower learn_rate or clip_norm."
    )


class Warnings(metaclass=_Coded):
    ELW01 = (
        "No sentence boundaries are set, so '{name}' reads each Doc in windows of "
        "{window} tokens. Put a 'sentencizer', 'senter' or 'parser' before it for "
        "vectors that see whole sentences."
    )
