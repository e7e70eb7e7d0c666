"""Every message that a user can meet, with a code, the cause and the way out.

Each code is a class: ``raise Errors.EL013(path=path, error=error)`` raises an OSError
whose ``code`` is "EL013", and ``except Errors.EL013`` catches it. Warnings are given
in the same way: ``warnings.warn(Warnings.ELW52(path=path))``.
"""

import reprlib
from string import Formatter
from typing import Any

from pydantic import ValidationError

LONGEST = 1000  # characters of a value in a message: files of others have megabytes


class _Shortening(Formatter):
    def format_field(self, value: object, format_spec: str) -> str:
        text = super().format_field(value, format_spec)
        return text if len(text) <= LONGEST else text[:LONGEST] + "..."


class Coded(Exception):
    """A message with a code: the base class of all errors and warnings here.

    Args:
        values: The values of the places in the message. An `error` that the operating
            system raised passes on its errno.

    Attributes:
        code: Such as "EL013".
        template: The message, with places for values.
    """

    code = template = ""

    def __init__(self, **values: object) -> None:
        text = _Shortening().vformat(self.template, (), values)
        super().__init__(f"[{self.code}] {text}")
        if isinstance(self, OSError):
            self.errno = getattr(values.get("error"), "errno", None)

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would show it in quotation marks

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, getattr(self, "errno", None))


def one_line(error: Exception) -> str:
    """Return the message of an error in one line. pydantic's names each setting, its
    problem and the value that was found."""
    if not isinstance(error, ValidationError):
        return str(error).strip().partition("\n")[0] or type(error).__name__
    problems = {}
    for found in error.errors():
        where = ".".join(str(p) for p in found["loc"] if p not in ("int", "float"))
        message = found["msg"].removeprefix("Value error, ")
        if where:
            message = f"{where}: {message}"
        is_named_wrong = found["type"] in ("missing", "extra_forbidden")
        if where and not (is_named_wrong or isinstance(found["input"], dict)):
            message += f", found {reprlib.repr(found['input'])}"
        problems[where] = message
    return "; ".join(problems.values())


class ElmoError(Coded):
    """An error of this package. It is also the builtin that fits, so that `except
    ValueError` catches it."""


class ElmoWarning(Coded, Warning):
    """A warning of this package."""


def _restore(kind: type[Coded], args: tuple[str], errno: int | None) -> Coded:
    """Return an error that was pickled, in another process perhaps."""
    error = kind.__new__(kind)
    error.args = args
    if isinstance(error, OSError):
        error.errno = errno
    return error


def _error(template: str, *builtins: type[Exception]) -> type[ElmoError]:
    """Return a class of errors, which are ValueErrors unless another builtin fits."""
    return type("", (ElmoError, *(builtins or (ValueError,))), {"template": template})


def _warning(template: str, *builtins: type[Warning]) -> type[ElmoWarning]:
    return type(
        "", (ElmoWarning, *(builtins or (UserWarning,))), {"template": template}
    )


class _Table(type):
    """A table whose classes get the code that they are listed by."""

    def __init__(cls, name: str, *args: Any) -> None:
        super().__init__(name, *args)
        for code, kind in vars(cls).items():
            if code.startswith("EL"):
                kind.code = kind.__name__ = code
                kind.__qualname__, kind.__module__ = code, __name__


class Errors(metaclass=_Table):
    """Errors, by code."""

    # Model folders and files
    EL001 = _error(
        "No biLM found in '{path}'. A model is a folder, or a file in one, that holds "
        "{layouts}. In Python, spacy_elmo.models.find(NAME) returns the folder of a "
        "shipped model.{names}",
        FileNotFoundError,
    )
    EL168 = _error(
        "'{path}' is packed. Unpack it first, with 'gunzip' or, an archive such as "
        "'.tar.gz', with 'tar xf', and name the folder of the unpacked files."
    )
    EL169 = _error(
        "'{path}' can't be read as a zip file of a model: {error}. Unpack it, and name "
        "the folder."
    )
    EL005 = _error(
        "'{path}' holds several models: {names}. Give the path of a file of the model "
        "that you mean, or move each model into a folder of its own."
    )
    EL081 = _error(
        "No biLM for the language '{lang}' is installed; there is {known}. Name "
        "one in the component's section (weights = FOLDER OR NAME; --weights of "
        "init-config), or load it with nlp.get_pipe('elmo').load_weights(FOLDER OR "
        "NAME). 'spacy elmo pretrain' trains one on plain text of any language."
    )
    EL191 = _error(
        "The biLM for the language '{lang}' is in a package of its own, which is not "
        "installed. Install it: pip install {package}"
    )
    EL190 = _error(
        "The package '{package}' says that the biLM '{name}' is in its module "
        "'{module}', which is missing. Install the package again: pip install "
        "--force-reinstall --no-deps {package}",
        FileNotFoundError,
    )
    EL051 = _error(
        "The biLM of this package is missing from '{path}': the package was built "
        "without it. Install an official wheel, or load your own weights.",
        FileNotFoundError,
    )
    EL002 = _error(
        "Can't read '{path}' as {format}: {error}. The file is damaged or holds "
        "something else; use an undamaged copy."
    )
    EL003 = _error(
        "'{path}': {problem}. The file is damaged or belongs to another model; use "
        "undamaged files that come from one model."
    )
    EL014 = _error(
        "'{path}' has format version {found}, and this version of spacy-elmo reads "
        "format versions up to {known}. Upgrade spacy-elmo."
    )
    EL012 = _error(
        "The weights in '{path}' have the fingerprint {found}, but the configuration "
        "records {expected}. One of the two was changed; restore both from the same "
        "copy of the model."
    )
    EL165 = _error(
        "'config.json' in '{path}' names the file '{name}', which is missing, and the "
        "arrays alone don't say how the model was trained. Find that file where the "
        "model comes from, and put it into '{path}'. If you can't, write "
        "'{path}/{name}' with {content}. These sizes are those of the arrays, but "
        "cell_clip, proj_clip, activation and max_characters_per_token are those of "
        "the published models: correct them if your model was trained with others."
    )
    EL166 = _error(
        "The model needs '{path}', which is missing: '{sizes}' says {kind}_dim = "
        "{dim}. Put the file there that was made when the model was trained."
    )
    EL167 = _error(
        "'{path}' says bidirectional = false: the model has one direction, and a biLM "
        "needs two. No other file of the model has the second direction; use a model "
        "that was trained with bidirectional = true."
    )
    EL163 = _error(
        "'{path}' has a table of {found} characters, but a model that reads the bytes "
        "of UTF-8 has 261. It reads an alphabet of its own, and no file lists that "
        "alphabet, so the model can't be read."
    )
    EL006 = _error(
        "'{path}' {problem}. These are not the weights of this model; use weights and "
        "configuration of the same model."
    )
    EL007 = _error(
        "Array '{name}' in '{path}' has shape {found}, but the sizes in the "
        "configuration require {expected}."
    )
    EL008 = _error(
        "Array '{name}' in '{path}' holds NaN or infinite values. Its vectors would be "
        "meaningless; use an undamaged copy of the weights."
    )
    EL009 = _error(
        "Array '{name}' in '{path}' is {problem}. Only plain floating-point arrays "
        "that are stored in the file itself are read; save the model again in this "
        "form."
    )
    EL022 = _error(
        "The {part} of '{path}' has a row for each word, but the vocabulary of these "
        "words is missing. Put the vocabulary that the model was trained with beside "
        "the weights, as a text file 'vocab.txt' with one word on each line."
    )
    EL013 = _error(
        "Can't write '{path}': {error}. What was there before is unchanged; free some "
        "space or choose another place, and save again.",
        OSError,
    )
    EL016 = _error(
        "'{path}' holds a model of another format ('{name}'). Save into another "
        "folder: if one folder holds both, the wrong model may be read."
    )
    EL061 = _error(
        "'{path}' was written by another program, and its model is not replaced. "
        "Choose another folder, or remove that file."
    )
    EL019 = _error(
        "Array '{name}' holds values that are not finite as {dtype}, so the model is "
        "not saved. In float16, no number is above 65,504: save a model with larger "
        "ones as float32."
    )
    EL027 = _error("The format {format} can't hold this model: {problem}.")
    # The biLM
    EL020 = _error("biLM configuration: {problem}.")
    EL026 = _error("{name} must be a number, at least {least}; found {found!r}.")
    EL021 = _error("Unknown start state '{start}'. Choose 'zeros' or 'boundary'.")
    EL025 = _error(
        "encode() takes a list of sentences, each a list of strings; found {found}. "
        "Split the text into sentences and tokens first."
    )
    EL078 = _error(
        "The vectors of the sentence {sentence} are NaN or infinite: the weights of "
        "the biLM are NaN, or so large that their sums overflow. If it is being "
        "trained, lower its learning rate (learn_rate_factor of the component). If "
        "not, use an undamaged copy, or a model saved before its training diverged."
    )
    EL077 = _error(
        "precision = '{precision}' is not available on this {device}. For inference, "
        "half needs a GPU or, on a CPU, the compiled library ('spacy elmo info MODEL "
        "--kernels' says whether it is there); tf32 needs a GPU. For training, "
        "bfloat16 needs a GPU or a CPU with AVX512-BF16 or AMX. Choose another "
        "precision, or 'float32'."
    )
    EL150 = _error(
        "The kernel '{name}' can't compute the {part} here. These can: {known}. Name "
        "one of them, or none for the best."
    )
    EL096 = _error(
        "There is not enough memory for this batch. Set a smaller batch_tokens, or "
        "read fewer sentences at once.",
        MemoryError,
    )
    EL080 = _error(
        "The GPU's memory does not hold {tokens} tokens in one piece. Cut Docs into "
        "shorter pieces (get_spans = spacy-elmo.Windows.v1, length = {fits}), or use "
        "the CPU.",
        MemoryError,
    )
    # Files of text
    EL232 = _error("The folder '{path}' has no text files (hidden files are not read).")
    EL030 = _error("Can't read '{path}': {error}.", OSError)
    EL031 = _error(
        "'{path}' is not UTF-8 text (near line {line}: {error}). If it is text in "
        "another encoding, convert it first, for instance with 'iconv -t UTF-8'."
    )
    EL230 = _error(
        "'{path}' is not running text: it is {what}. To read its content, {way_out}."
    )
    EL231 = _error(
        "'{path}' has the file name of CoNLL-U, but has {problem}: {line!r}. If it is "
        "text, give it another ending; {way_out}."
    )
    EL040 = _error(
        "'{path}', line {line} is not a JSON object with text or tokens ({error}). A "
        'file named .jsonl has one such object on each line: {{"text": "..."}} or '
        '{{"tokens": ["..."]}}. Write such a file. If other fields hold the text or '
        "tokens, 'embed' takes their names (--text-field, --tokens-field)."
    )
    EL220 = _error(
        "Can't read '{path}' as a corpus of Docs: {error}. 'spacy convert' writes such "
        "'.spacy' files. A file of plain text needs another ending."
    )
    EL033 = _error("There is no text: every file is empty or holds only white space.")
    EL032 = _error(
        "There is no tokenizer '{lang}': {error}. For any language with spaces between "
        "words, choose lang = 'xx', or tokenizer = 'whitespace' to split at spaces "
        "alone."
    )
    EL041 = _error(
        "The prepared text in '{path}' is damaged: {problem}. Prepare it again with "
        "--force."
    )
    EL042 = _error(
        "'{path}' holds other files, or text that was prepared from other files or "
        "with other settings. Choose another folder, or replace what is there with "
        "--force. A source file is never replaced."
    )
    EL043 = _error(
        "'{path}' was made by 'spacy elmo prepare' and can't be combined with other "
        "text. Name this folder alone, without other files or folders."
    )
    EL044 = _error(
        "A process that tokenises text was killed from outside, most often because "
        "memory ran out. Run the same command again with fewer than {processes} "
        "processes; what was done is kept. In a script, the call that starts processes "
        "must stand under 'if __name__ == \"__main__\":'.",
        OSError,
    )
    # Training
    EL037 = _error("Training configuration '{path}': {problem}.")
    EL034 = _error(
        "The vocabulary of '{path}' starts with {found}, not with <S>, </S>, <UNK>."
    )
    EL039 = _error(
        "The vocabulary of '{path}' holds a word twice. The file is damaged; use an "
        "undamaged copy."
    )
    EL017 = _error(
        "No word of the dev text is in the vocabulary, so its perplexity would mean "
        "nothing. Use dev text in the language of the training text, tokenised in the "
        "same way, and a vocabulary with room for words beside <S>, </S> and <UNK> "
        "(size and min_count in [vocab])."
    )
    EL035 = _error(
        "The text is too short for {batch} streams: it has {tokens} tokens, sentence "
        "boundaries included. Use more text, or a batch_size of at most {fits}."
    )
    EL029 = _error(
        "The cutoffs {cutoffs} don't fit. They must rise and stay below the size of "
        "the vocabulary. Their number is limited, too: vectors have {width} columns, "
        "and those of each cluster are 4 times narrower than those of the one before. "
        "Leave out the last cutoff."
    )
    EL045 = _error(
        "A sampled softmax needs more words than samples, but the vocabulary has "
        "{words:,} words for {samples:,} samples. Use fewer samples, or the full "
        "softmax, which costs no more here."
    )
    EL036 = _error(
        "'{path}' has no softmax ('vocab.txt' and 'softmax.safetensors'), so it can't "
        "predict words. Published weights come without one: train one with 'spacy elmo "
        "pretrain' and 'init' set to this folder. Training checkpoints of bilm-tf have "
        "a softmax: name the folder with 'model.ckpt-....index'. For a pipeline, the "
        "softmax is read from the weights that the pipeline names, so they must still "
        "be there."
    )
    EL048 = _error(
        "This needs about {needed} of memory, and {available} is free. {advice}; a "
        "sampled softmax needs no memory for the logits of a large vocabulary."
    )
    EL076 = _error(
        "The GPU ran out of memory. Close other programs that use it. In pretraining, "
        "start again with a smaller batch_size, or compute each batch in parts "
        "(accumulate = 2, 4 ...); accumulate may also change when a run resumes.",
        MemoryError,
    )
    EL038 = _error(
        "The loss became {loss} by step {step}. A checkpoint and models in '{output}', "
        "if there are any, were saved before that. Lower the learning rate or "
        "clip_norm, and start again with another --output or --force."
    )
    EL018 = _error(
        "The processes of this run don't all see the checkpoint in '{path}'. They need "
        "an output folder that all nodes share."
    )
    EL125 = _error(
        "The processes of this run would not train the same model: their settings, "
        "texts or first weights differ. Start all of them with the same configuration "
        "and the same files, or with files on a disk that all nodes share."
    )
    EL124 = _error(
        "Another process is writing to '{path}'. Wait for it, stop it, or choose "
        "another --output."
    )
    EL123 = _error(
        "The optimizers update '{name}' {found} times in each step. Every parameter "
        "must be in exactly one param_group of one optimizer, with dense gradients or "
        "with the sparse ones of a sampled softmax (spacy-elmo.SampledSoftmax.v1)."
    )
    EL120 = _error(
        "Can't save the optimizer: its state_dict() must hold nothing but tensors, "
        "numbers, strings, lists, tuples and dicts ({problem})."
    )
    EL046 = _error(
        "Can't resume from '{path}': {error}. If the checkpoint is damaged, start "
        "again with --force."
    )
    EL047 = _error(
        "'{path}' holds a run that can't be resumed like this: {differs}. Choose "
        "another --output, set these as they were to resume the run, or start again "
        "with --force."
    )
    EL121 = _error(
        "'{path}' is not the log of a run: one of its lines does not have a step, "
        "tokens and loss. Choose another folder, or move that file."
    )
    EL049 = _error(
        "tensorboard = true needs TensorBoard: pip install tensorboard ({error}).",
        ImportError,
    )
    # In spaCy
    EL050 = _error(
        "'{name}' has no weights. Name them in its section (weights = PATH), load them "
        "with nlp.get_pipe('{name}').load_weights(PATH), or name them in "
        "[initialize.components.{name}.weights] and call nlp.initialize()."
    )
    EL052 = _error(
        "The weights from '{source}' don't fit the configuration: {sizes}. Leave all "
        "sizes out of [components.elmo.model] to have those of the weights, or write "
        "these sizes there:\n\n{block}"
    )
    EL053 = _error(
        "A listener finds no 'elmo' component (upstream '{upstream}'). Add one under "
        "that name, before the components that listen to it."
    )
    EL054 = _error(
        "A listener is configured for width {found}, but '{name}' has vectors of width "
        "{expected}. Set width = {expected}, or null, in the block of "
        "spacy-elmo.ElmoListener.v1."
    )
    EL055 = _error(
        "This Doc has no layers of a component '{name}'. A Doc that came from another "
        "process or a file, or whose pipeline is gone, keeps only doc.tensor; run the "
        "component on it again."
    )
    EL058 = _error("There are {found} vectors for a Doc of {expected} tokens.")
    EL059 = _error(
        "'{name}' has no labels: it makes vectors for other components.",
        NotImplementedError,
    )
    EL060 = _error(
        "A listener was trained on {found}, but '{name}' has {expected}. This is "
        "another biLM: use the one that the listener was trained on, or train its "
        "component again."
    )
    EL085 = _error("The mix of a component or of its listener: {problem}.")
    EL086 = _error(
        "The layer cache {where} is damaged, or is another kind of file: {error}. "
        "Choose another path, or remove a damaged cache; its layers are computed again."
    )
    EL087 = _error(
        "The layer cache {where} can't be used: {error}. Choose a writable place with "
        "free space on a disk of this machine, or leave layer_cache out.",
        OSError,
    )
    EL088 = _error(
        "'{name}' has a layer_cache, but frozen = false: the layers of a biLM change "
        "while it is trained. Leave layer_cache out."
    )
    EL089 = _error(
        "ELMo can't stand at '{found}'. Choose 'input', 'output' or, for the two of "
        "them, 'both' (at = 'both', --at both)."
    )
    EL090 = _error(
        "No component of this pipeline listens to an 'elmo' component, so there are no "
        "mixes. A listener is spacy-elmo.ElmoListener.v1 in a component's model."
    )
    EL091 = _error(
        "'{name}' can't listen to 'elmo': {problem}. Choose from tagger, "
        "morphologizer, ner, parser, senter, textcat, spancat, trainable_lemmatizer or "
        "any other factory whose model has a tok2vec."
    )
    EL094 = _error(
        "Similarity in context compares tokens, spans and Docs, but not a {found}.",
        TypeError,
    )
    EL095 = _error(
        "spacy-elmo.Tok2Vec.v1 has no weights. They are not in the configuration, but "
        "are saved with the component whose listeners were replaced. Take that "
        "component from its pipeline (source = PATH), or train it on an 'elmo' "
        "component, with spacy-elmo.ElmoListener.v1 in this place."
    )
    EL141 = _error(
        "spacy-elmo.Encode.v1 was initialised without Docs, and so for vectors of "
        "{expected} columns, but its own have {found}. Initialise the pipeline with "
        "examples, or set width = {found} there and in its encoder."
    )
    EL144 = _error(
        "spacy-elmo.Encode.v1 has width = {found}, but its encoder reads vectors of "
        "width {expected}. Give both the same width."
    )
    EL140 = _error(
        "doc.tensor has {found} vectors for {expected} tokens: tokens were merged or "
        "split after 'elmo' had read the Doc. Let 'elmo' read it again, doc = "
        "nlp.get_pipe('elmo')(doc), or name a layer to compare."
    )
    EL142 = _error(
        "Vectors of widths {widths} can't be compared: they come from two models. Read "
        "both Docs with the same pipeline, or name a layer to compare."
    )
    EL143 = _error(
        "'{name}' is not an 'elmo' component. Name one in spacy-elmo.UseLayerCache.v1 "
        'or spacy-elmo.Unfreeze.v1 (name = "elmo").'
    )
    EL146 = _error(
        "There are no word vectors in '{path}': the file '{file}' is missing. Name a "
        "model that has word vectors; of the shipped models, {names} does.",
        FileNotFoundError,
    )
    EL147 = _error(
        "'spacy-elmo.Words.v1' has no vectors yet. Call nlp.initialize() to read them, "
        "or load a pipeline that was saved with them."
    )
    # Vectors of whole corpora
    EL201 = _error(
        "The plan in '{path}' has other settings: {differs}. Choose another --output, "
        "or repeat the settings that the plan was made with."
    )
    EL202 = _error(
        "The plan '{path}' is damaged: {error}. Without its plan a folder can't be "
        "continued; start again in another folder."
    )
    EL203 = _error(
        "'{path}' needs about {needed}, and {free} is free. Options that fit, in a new "
        "folder: {smaller}.",
        OSError,
    )
    EL204 = _error(
        "'{path}' was changed while it was read, or since the plan was made. Restore "
        "the file, or begin again; a plan of the changed file needs another folder."
    )
    EL205 = _error(
        "'{path}', line {line}: {problem}. Correct or remove the line; no line is "
        "skipped silently."
    )
    EL206 = _error(
        "There is no text to embed: no input is named, or all inputs are empty. Name "
        "files, or - for standard input. To continue a plan, leave out the model, too."
    )
    EL207 = _error("{name} = '{found}' is not allowed. Allowed: {known}.")
    EL208 = _error(
        "'{path}' is a damaged shard: {error}. 'spacy elmo embed repair' writes it "
        "again."
    )
    EL209 = _error(
        "The model '{model}' is not the one that the plan was made with: its "
        "fingerprint differs. Restore that model, or make a new plan in another folder."
    )
    EL210 = _error(
        "A vector has values that are not finite as {dtype}. Write the vectors as "
        "float32; if they are not finite there either, the weights are damaged."
    )
    EL211 = _error(
        "This needs {name}, which is missing: pip install 'spacy-elmo[{extra}]' "
        "({error}).",
        ImportError,
    )
    EL212 = _error(
        "Processes end before they start to work, most often because memory has run "
        "out. Run the same command again with fewer than {processes} processes. In a "
        "script, the call that starts processes must stand under 'if __name__ == "
        '"__main__":\'.',
        OSError,
    )
    EL213 = _error(
        "{n} documents in '{path}' have the id '{key}', but an id must stand for one. "
        "Use the document's number: the first document is 0.",
        KeyError,
    )
    EL214 = _error(
        "'{path}' has no plan. 'spacy elmo embed run MODEL INPUT... --output {path}' "
        "makes one.",
        FileNotFoundError,
    )
    EL215 = _error(
        "There is no biLM, or no mix of its layers, to take from '{name}' of "
        "'{source}'. The pipeline needs an 'elmo' component, and a component whose mix "
        "is taken needs exactly one listener. The layers of a mix of the kind 'concat' "
        "are not added up: take 'all' layers."
    )
    EL216 = _error(
        "Document '{key}' has other tokens than this Doc. Make the Doc from the same "
        "text, with the tokenizer of the plan."
    )
    EL217 = _error(
        "'{path}' is not finished: {left} jobs are left. 'spacy elmo embed run' does "
        "them."
    )
    EL218 = _error(
        "This needs one vector for each token, but the folder has {found}. Write "
        "another folder with {options}."
    )
    EL222 = _error(
        "Without a model and inputs, the plan in '{path}' is continued as it is. Leave "
        "out the options that would change it: {options}."
    )
    EL223 = _error(
        "'{path}' has files that end in '{suffix}'. Replace the files that have the "
        "names of shards with --force, or write to another folder."
    )
    # Looking into a biLM
    EL082 = _error("'{pattern}' is neither a word nor a regular expression: {error}.")
    EL083 = _error(
        "There is no layer {layer}: the token layer is 0, and the last layer is {last}."
    )
    EL084 = _error(
        "The word '{word}' is not in '{where}', so there are no contexts to compare."
    )
    EL221 = _error(
        "A page shows sentences of 1 to {limit} tokens; this one has {found}. Use a "
        "part of it."
    )
    # Commands and plots
    EL130 = _error(
        "'{path}' exists already. Replace it with --force, or write to another file.",
        ValueError,
        FileExistsError,
    )
    EL151 = _error(
        "There is no GPU {gpu_id}: PyTorch finds {n}. Choose another --gpu-id, or -1 "
        "for the CPU."
    )
    EL073 = _error("'{found}' is unknown. Choose from: {known}.")
    EL074 = _error("Can't draw '{path}': {problem}.")
    EL075 = _error(
        'Plots need matplotlib: pip install "spacy-elmo[plot]" ({error}).', ImportError
    )
    # What is gone
    EL097 = _error(
        "precision = 'int8' was removed: 'half' is several times as exact. "
        "Set precision = 'half', or 'float32' where half is not available."
    )
    EL240 = _error("'{name}' was removed: {instead}.")
    EL241 = _error(
        "The architecture 'spacy-elmo.{name}' was removed, since spaCy has its own. "
        "Write {instead} in its place, and train the component again. Version 0.2 of "
        "spacy-elmo loads components that were trained with it."
    )


class Warnings(metaclass=_Table):
    """Warnings, by code."""

    ELW01 = _warning(
        "A Doc without sentence boundaries is read by '{name}' {how}. Put a "
        "'sentencizer', 'senter' or 'parser' before '{name}', so that each sentence is "
        "read alone and whole."
    )
    ELW64 = _warning(
        "'{name}' got a Doc without sentence boundaries, though '{setter}' stands "
        "before it. In training, only the components in [training] "
        "annotating_components annotate Docs. Add '{setter}' there, or to `annotates` "
        "of nlp.update, so that training reads sentences as prediction does."
    )
    ELW03 = _warning(
        "'{name}' starts from random weights, since no weights are named for it. It is "
        "trained only through the components that listen to it. Name weights (weights "
        "= PATH) unless you want to train it from scratch."
    )
    ELW04 = _warning(
        "'{name}' was not initialised and had no weights when a listener asked for its "
        "layers, so it loaded the weights of this package. Call nlp.initialize first, "
        "or name weights in its section."
    )
    ELW05 = _warning(
        "'{path}', line {line} has more than {length:,} characters, and is read in "
        "pieces of about that length. Put one sentence or paragraph on each line."
    )
    ELW07 = _warning(
        "The layer cache {where} takes no more layers: it has reached layer_cache_mb = "
        "{mb}, or the disk is full ({error}). Other layers are computed again each "
        "time. If the cache holds layers of other weights, remove it to start again."
    )
    ELW08 = _warning(
        "The layer cache {where} holds only layers of other weights or settings, which "
        "are not used. Several biLMs can share a file. If no other biLM needs these "
        "layers any more, remove the file to free their space."
    )
    ELW06 = _warning(
        "The GPU's memory does not hold {tokens} tokens at once, so each such batch "
        "fails first and is then computed in smaller ones. Set batch_tokens = {fits}, "
        "or read fewer Docs at once."
    )
    ELW20 = _warning(
        "A mix that listens to '{name}' was trained with other weights than '{name}' "
        "has. The sizes fit, but the vectors mean something else. Use the biLM that "
        "the mix was trained with, or train its component again."
    )
    ELW21 = _warning(
        "'{other}' stands after '{name}' and overwrites its doc.tensor, so that "
        "token.vector is a vector of '{other}'. If nothing listens to '{other}', put "
        "it before '{name}'. If this is what you want, set set_tensor = false in "
        "[components.{name}]. Either way, spacy_elmo.similarity compares the vectors "
        "of '{name}'."
    )
    ELW22 = _warning(
        "'{other}' listens to a tok2vec that stands before '{name}', and reads "
        "doc.tensor at prediction. So '{name}' leaves doc.tensor as it is, as with "
        "set_tensor = false; its vectors are in doc._.elmo.layers, and "
        "spacy_elmo.similarity compares them. To have them in doc.tensor, put '{name}' "
        "after '{other}'."
    )
    ELW23 = _warning(
        "Layers took more than max_layers_mb = {mb}, so some were released before all "
        "listeners had read them, and are computed again. Read fewer Docs at once, "
        "nlp.pipe(..., batch_size=...), or raise max_layers_mb."
    )
    ELW24 = _warning(
        "'{name}' has a layer cache, but is trained now (frozen = false). The layers "
        "of a biLM change while it is trained, so the cache is not used any more."
    )
    ELW25 = _warning(
        "'{name}' was sourced or loaded, and so not initialised. This training uses "
        "nothing of [initialize.components.{name}], and no layer cache. To keep layers "
        "for the next epoch, call nlp.get_pipe('{name}').use_layer_cache('memory'), or "
        'write @callbacks = "spacy-elmo.UseLayerCache.v1" into '
        "[initialize.before_init]. Ignore this warning if one epoch is enough."
    )
    ELW26 = _warning(
        "{error} Until then the cache is not used, and layers are computed again each "
        "time."
    )
    ELW27 = _warning(
        "The biLM does not learn from a component that reads other Docs than the "
        "update has. That happens with entity_linker, which makes a Doc of each "
        "sentence, with nlp.rehearse, and with nlp.update if it excludes 'elmo'. It "
        "also happens where tokens were merged or split after 'elmo' had read them: "
        "put 'elmo' after the component that does it. Otherwise freeze the biLM, or "
        "ignore the warning if other components train it."
    )
    ELW61 = _warning(
        "The model is read without its vocabulary: {error} Vectors do not depend on "
        "the vocabulary, but a softmax does. Replace that file, or remove it."
    )
    ELW62 = _warning(
        "The vocabulary of '{path}' has no <UNK>, so unknown words are read as its "
        "first word, {first!r}. In 'vocab.txt', change the entry for unknown words to "
        "<UNK>."
    )
    ELW60 = _warning(
        "'{path}' comes with a trained mix of its layers, but '{name}' makes the plain "
        "average. To use the trained mix, set mix_weights = {weights} and gamma = "
        "{gamma} in [components.{name}], as 'spacy elmo info {path} --config' prints "
        "them."
    )
    ELW52 = _warning(
        "'{path}' has no checksum, because it was edited or made by another program, "
        "so damage to it is not noticed. To add a checksum, load it and save it again."
    )
    ELW51 = _warning(
        "The LSTM states do not converge in {passes} passes over an empty sentence: "
        "cells of a model without cell_clip may grow for ever. With start = "
        "'boundary', sentences begin with the state after these passes; start = "
        "'zeros', the default, does not depend on them."
    )
    ELW53 = _warning(
        "The biLM runs on the CPU, because its recurrent steps would wait for each "
        "other on {device}, which spaCy prefers here. Other components use {device}."
    )
    ELW57 = _warning(
        "set_exact does nothing any more: on a CPU a sentence always has the same "
        "vectors, bit for bit, in any batch. Leave it out.",
        DeprecationWarning,
    )
    ELW56 = _warning(
        "The texts of this run were tokenised in different ways, so words of one may "
        "be unknown in another: {how}. Prepare them with the same --lang, --tokenizer "
        "and --sentences; for files, set these in [text]."
    )
    ELW63 = _warning(
        "'{path}' looks like {what}, but is read as running text, line by line: "
        "{line!r}. If it is not running text, convert it first."
    )
    ELW70 = _warning(
        "'{old}' is called '{new}' now. The old name works until version 0.4."
    )
    ELW71 = _warning(
        "learn_rate = {rate} and unfreeze_every = {every} of an 'elmo' component are "
        "settings of version 0.2. They work until version 0.4. Take both out of its "
        "section, and set learn_rate_factor there: the biLM's rate divided by the "
        'highest of [training.optimizer]. @callbacks = "spacy-elmo.Unfreeze.v1" in '
        "[training.before_update] unfreezes layers at the steps that it names."
    )
    ELW72 = _warning(
        "The format '{format}' has no place for the model's Unicode form, {form}. The "
        "model that is written reads text as it is: bring text into that form by "
        "unicodedata.normalize('{form}', text), or save in the format 'spacy-elmo'."
    )
    ELW73 = _warning(
        "The format '{format}' has no place for the model's trained mix of layers. To "
        "use the mix with the model that is written, set mix_weights = {weights} and "
        "gamma = {gamma} in the component's section, or save in the format "
        "'spacy-elmo'."
    )
    ELW55 = _warning(
        "Until this checkpoint, matrices were multiplied by '{before}', which does not "
        "run on this device or with this version of PyTorch. The run goes on with "
        "'{now}', so further results are rounded differently."
    )


def __getattr__(name: str) -> Any:
    """Return the class of a code: what unpickles a warning may look for it here."""
    for table in (Errors, Warnings):
        if name.startswith("EL") and name in vars(table):
            return vars(table)[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
