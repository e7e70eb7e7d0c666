"""Every message that a user can meet, with a code, the cause and the way out.

Each code is a class: ``raise Errors.EL013(path=path, error=error)`` raises an OSError
whose ``code`` is "EL013", and ``except Errors.EL013`` catches it. Warnings are given
in the same way: ``warnings.warn(Warnings.ELW52(path=path))``.
"""

from string import Formatter
from typing import Any

LONGEST = 1000  # characters of a value in a message: files of others have megabytes


class _Shortening(Formatter):
    def format_field(self, value: object, format_spec: str) -> str:
        text = super().format_field(value, format_spec)
        return text if len(text) <= LONGEST else text[:LONGEST] + "..."


class Coded(Exception):
    """A message with a code: the base class of all errors and warnings here.

    Args:
        values: What the message has places for. An `error` that the operating system
            raised passes on its errno.

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
        "{layouts}. In Python, spacy_elmo.models.find(NAME) is the folder of a model "
        "that ships.{names}",
        FileNotFoundError,
    )
    EL002 = _error(
        "Can't read '{path}' as {format}: {error}. The file is damaged or holds "
        "something else; take an undamaged copy."
    )
    EL003 = _error(
        "'{path}': {problem}. The file is damaged, or belongs to another model; take "
        "an undamaged copy, and all files of a model from one place."
    )
    EL005 = _error(
        "'{path}' holds several models: {names}. Give the path of a file of the one "
        "that is meant, or a folder for each."
    )
    EL006 = _error(
        "'{path}' {problem}. These are not the weights of this model; take weights and "
        "configuration from one place."
    )
    EL007 = _error(
        "Array '{name}' in '{path}' has shape {found}, but the sizes in the "
        "configuration ask for {expected}."
    )
    EL008 = _error(
        "Array '{name}' in '{path}' holds NaN or infinite values. Vectors made from it "
        "would be meaningless; take an undamaged copy of the weights."
    )
    EL009 = _error(
        "Array '{name}' in '{path}' is {problem}. Only plain floating-point arrays "
        "stored in the file itself are read; save the model again as such."
    )
    EL010 = _error("Can't read '{path}' as safetensors: {error}. The file is damaged.")
    EL012 = _error(
        "The weights in '{path}' have fingerprint {found}, but '{config}' has "
        "{expected}. One of the files was changed: restore both from the same save."
    )
    EL013 = _error(
        "Can't write '{path}': {error}. What was there before is unchanged; free some "
        "space or choose another place, and save again.",
        OSError,
    )
    EL014 = _error(
        "'{path}' was written by a newer format ({found}) than this version of "
        "spacy-elmo reads ({known}). Upgrade spacy-elmo."
    )
    EL016 = _error(
        "'{path}' holds a model of another format ('{name}'). Save into a folder of "
        "its own, or one would be read for the other."
    )
    EL019 = _error(
        "Array '{name}' holds values that are not finite as {dtype}, so the model is "
        "not saved. If they are merely large, save it as float32."
    )
    # The biLM
    EL020 = _error("biLM configuration: {problem}.")
    EL021 = _error("Unknown start state '{start}'. Choose 'zeros' or 'boundary'.")
    EL022 = _error(
        "'{path}' has word-embedding input, which needs the vocabulary that its rows "
        "stand for: a text file 'vocab.txt', one word a line, beside the weights."
    )
    EL025 = _error(
        "encode() takes a list of sentences, each a list of strings; found {found}. "
        "Split the text into tokens first."
    )
    EL026 = _error("{name} must be a number, at least {least}; found {found!r}.")
    EL078 = _error(
        "The sentence {sentence} has vectors that are NaN or infinite. The weights are "
        "finite, but so large that sums of them are not: take an undamaged copy, or a "
        "model from before its training diverged."
    )
    EL027 = _error("The format {format} can't hold this model: {problem}.")
    EL029 = _error(
        "The cutoffs {cutoffs} don't fit: they must rise, and each cluster has vectors "
        "4 times narrower than the one before, of {width} columns. Leave out the last."
    )
    # Training text and trainer
    EL030 = _error("Can't read the text file '{path}': {error}.", OSError)
    EL031 = _error(
        "'{path}' is not UTF-8 text (near line {line}: {error}). If it is text, "
        "convert it first, for instance with 'iconv -t UTF-8'."
    )
    EL032 = _error(
        "No tokenizer '{lang}': {error}. 'xx' is spaCy's for any language that sets "
        "words apart by spaces, and 'whitespace' splits there alone."
    )
    EL033 = _error("There is no text: every file is empty or only white space.")
    EL017 = _error(
        "No word of the dev text is in the vocabulary, so it would say nothing. Is it "
        "of the same language, and tokenised alike?"
    )
    EL018 = _error(
        "The processes of this run don't all see the checkpoint in '{path}'. They need "
        "an output folder that all nodes share."
    )
    EL034 = _error(
        "The vocabulary of '{path}' starts with {found}, not with <S>, </S>, <UNK>."
    )
    EL035 = _error(
        "The text has {tokens} tokens, boundaries of sentences among them, too few for "
        "{batch} streams. Take more text, or a batch_size of {fits} at most."
    )
    EL036 = _error(
        "'{path}' has no softmax ('vocab.txt' and 'softmax.safetensors'), so it can't "
        "predict words. Published weights come without one: train one with 'spacy elmo "
        "pretrain' and 'init' set to this folder. Training checkpoints of bilm-tf have "
        "it: name the folder with 'model.ckpt-....index'. A pipeline is read with the "
        "softmax of the weights that it names, which must still be there."
    )
    EL037 = _error("Training configuration '{path}': {problem}.")
    EL038 = _error(
        "The loss became {loss} up to step {step}. The checkpoint and the models in "
        "'{output}', if there are some yet, are the last good ones. Lower the learning "
        "rate or clip_norm, and start again with another --output or --force."
    )
    EL039 = _error("The vocabulary of '{path}' holds a word twice. It is damaged.")
    EL040 = _error(
        "'{path}', line {line}: not a JSON object with text or tokens ({error}). Files "
        'named .jsonl hold one such object a line: {{"text": "..."}} or '
        '{{"tokens": ["..."]}}. Write such a file; where other fields hold them, '
        "'embed' takes their names (--text-field, --tokens-field)."
    )
    EL041 = _error(
        "Text prepared in '{path}' is damaged: {problem}. Prepare it with --force."
    )
    EL042 = _error(
        "'{path}' holds other files, or text that was prepared from other files or "
        "with other settings. Choose another folder, or replace them with --force; "
        "a source is never replaced."
    )
    EL043 = _error(
        "'{path}' was made by 'spacy elmo prepare', and such a folder is a text of its "
        "own: name it alone, without other files or folders."
    )
    EL045 = _error(
        "A sampled softmax needs more words than it samples, and the vocabulary has "
        "{words:,} for {samples:,} samples. Take fewer samples, or the full softmax, "
        "which costs no more then."
    )
    EL046 = _error(
        "Can't resume from '{path}': {error}. If damaged, start again with --force."
    )
    EL047 = _error(
        "'{path}' holds another run: {differs}. Choose another --output, set these as "
        "they were to resume it, or start again with --force."
    )
    EL121 = _error(
        "'{path}' is not the log of a run: a line of it has no step, tokens and loss. "
        "Choose another folder, or move that file."
    )
    EL048 = _error(
        "This needs about {needed} of memory, and {available} are free. {advice}; a "
        "sampled softmax needs no memory for the logits of a large vocabulary."
    )
    EL123 = _error(
        "The optimizers train '{name}' {found} times a step. Every parameter must be "
        "in one param_group of one of them: those with dense gradients, and those with "
        "sparse ones, which a sampled softmax has (spacy-elmo.SampledSoftmax.v1)."
    )
    EL124 = _error(
        "Another process trains in '{path}'. Wait for it, stop it, or choose another "
        "--output."
    )
    EL125 = _error(
        "The processes of this run would not train the same model: their settings, "
        "texts or first weights differ. Start all with the same configuration, and the "
        "same files, or files on a disk that all nodes share."
    )
    EL120 = _error(
        "Can't save the optimizer: its state_dict() must hold nothing but tensors, "
        "numbers, strings, lists, tuples and dicts ({problem})."
    )
    EL049 = _error(
        "tensorboard = true needs TensorBoard: pip install tensorboard ({error}).",
        ImportError,
    )
    EL044 = _error(
        "A process that tokenises text was ended from outside, most often for want of "
        "memory. Run the same command again, which keeps what was done, with fewer "
        "processes than {processes}. In a script, what starts them has to stand under "
        "'if __name__ == \"__main__\":'.",
        OSError,
    )
    EL076 = _error(
        "The GPU ran out of memory. Close what else uses it, or, to pretrain, start "
        "again with a smaller batch_size, or the same one in parts (accumulate = 2, 4 "
        "...), which may also change on the way.",
        MemoryError,
    )
    EL077 = _error(
        "precision = '{precision}' is not for this {device}. For inference, half needs "
        "a GPU or, on a CPU, the compiled library ('spacy elmo info MODEL --kernels' "
        "says whether it is there); tf32 needs a GPU. For training, bfloat16 needs a "
        "GPU or a CPU with AVX512-BF16 or AMX. Choose another, or 'float32'."
    )
    EL097 = _error(
        "precision = 'int8' is gone: 'half' is faster now, and ten times as exact. Set "
        "precision = 'half' ('float32' where there is no half)."
    )
    EL096 = _error(
        "There is no memory for what is computed at once. Set a smaller batch_tokens, "
        "or read fewer sentences at once.",
        MemoryError,
    )
    EL161 = _error(
        "The softmax of '{path}' has {rows} rows, and the words that they stand for "
        "are not there. Put the vocabulary that it was trained with beside it, as "
        "'vocab.txt', one word a line."
    )
    EL162 = _error(
        "'{path}' has {found} words, and the softmax beside it {rows} rows. Put the "
        "vocabulary there that the model was trained with."
    )
    EL165 = _error(
        "'{path}' names '{name}' in 'config.json', which is not there, and the arrays "
        "alone don't say how it was trained. Find that file where the model comes from "
        "and put it into '{path}'. Without it, write '{path}/{name}' with {content}: "
        "the sizes are those of the arrays, but cell_clip, proj_clip, activation and "
        "max_characters_per_token are those of the published models; correct them if "
        "yours was trained with others."
    )
    EL166 = _error(
        "'{path}' is not there, which the model needs: '{sizes}' says {kind}_dim = "
        "{dim}. Put the file there that was made when the model was trained."
    )
    EL167 = _error(
        "'{path}' says bidirectional = false: the model has one direction, and a biLM "
        "needs two. No other file of it has the second; take a model that was trained "
        "with bidirectional = true."
    )
    EL168 = _error(
        "'{path}' is packed. Unpack it first, with 'gunzip' or what the system has for "
        "it, and name the folder that the file is in."
    )
    EL169 = _error(
        "'{path}' can't be read as a zip of a model: {error}. Unpack it, and name the "
        "folder."
    )
    EL164 = _error(
        "'{path}' has a softmax, which is left out: the words that its rows stand for "
        "are not there. To keep it, put the vocabulary that it was trained with beside "
        "it, as 'vocab.txt', one word a line, and convert again with --force."
    )
    EL163 = _error(
        "'{path}' has a table of {found} characters, where a model that reads the "
        "bytes of UTF-8 has 261. It reads characters of its own, and no file says "
        "which ones, so it can't be read."
    )
    EL080 = _error(
        "The GPU's memory does not hold {tokens} tokens read at once. Read them in "
        "shorter pieces (get_spans = spacy-elmo.Windows.v1, length = {fits}) or on the "
        "CPU.",
        MemoryError,
    )
    EL130 = _error(
        "'{path}' exists. Replace it with --force, or write to another file.",
        ValueError,
        FileExistsError,
    )
    EL150 = _error(
        "The kernel '{name}' can't compute the {part} here. 'spacy elmo info MODEL "
        "--kernels' lists those that can."
    )
    EL151 = _error(
        "There is no GPU {gpu_id}: PyTorch finds {n}. Choose another --gpu-id, or -1 "
        "for the CPU."
    )
    # In spaCy
    EL050 = _error(
        "'{name}' has no weights. Name some in its section (weights = PATH), load some "
        "with nlp.get_pipe('{name}').load_weights(PATH), or name them in "
        "[initialize.components.{name}.weights] and initialise it."
    )
    EL051 = _error(
        "The biLM of this package is missing from '{path}': the package was built "
        "without it. Install an official wheel, or load weights of your own.",
        FileNotFoundError,
    )
    EL081 = _error(
        "No biLM for the language '{lang}' is installed; there is {known}. Name "
        "one in the component's section (weights = FOLDER OR NAME; --weights of "
        "init-config), or load it with nlp.get_pipe('elmo').load_weights(FOLDER OR "
        "NAME). 'spacy elmo pretrain' trains one on plain text of any language."
    )
    EL190 = _error(
        "The package '{package}' says that the biLM '{name}' is in its module "
        "'{module}', which is not there. Install it again: pip install "
        "--force-reinstall --no-deps {package}",
        FileNotFoundError,
    )
    EL191 = _error(
        "The biLM for the language '{lang}' is in a package of its own, which is not "
        "installed. Install it: pip install {package}"
    )
    EL052 = _error(
        "The weights from '{source}' don't fit the configuration: {sizes}. Leave all "
        "sizes out of [components.elmo.model], and they are those of the weights, or "
        "write these there:\n\n{block}"
    )
    EL053 = _error(
        "A listener finds no 'elmo' component (upstream '{upstream}'). Add one before "
        "the components that listen to it, under that name."
    )
    EL054 = _error(
        "A listener is configured for width {found}, but '{name}' gives {expected}. "
        "Set width = {expected}, or null, where spacy-elmo.ElmoListener.v1 is."
    )
    EL055 = _error(
        "This Doc has been through no component '{name}' that is still here. Docs from "
        "another process or from a file, or whose pipeline is gone, keep only "
        "doc.tensor; run the component on it again."
    )
    EL056 = _error("Windows.v1: length must be at least 1, found {found}.")
    EL057 = _error(
        "mix_weights has {found} values for {expected} layers (with the token layer)."
    )
    EL058 = _error("{found} vectors for a Doc of {expected} tokens.")
    EL059 = _error(
        "'{name}' has no labels: it makes vectors for other components.",
        NotImplementedError,
    )
    EL060 = _error(
        "A listener was trained on {found}, but '{name}' has {expected}. That is "
        "another biLM: use the one it was trained on, or train the component again."
    )
    EL085 = _error("The mix of a component or of its listener: {problem}.")
    EL086 = _error(
        "The layer cache {where} is damaged, or the file is something else: {error}. "
        "Choose another path, or remove a damaged cache; what it held is computed "
        "again."
    )
    EL087 = _error(
        "The layer cache {where} can't be used: {error}. Choose a place that can be "
        "written, on a disk of this machine that has room, or leave layer_cache out.",
        OSError,
    )
    EL088 = _error(
        "'{name}' has a layer_cache, but frozen = false: layers of a biLM that is "
        "trained are never the same again. Leave layer_cache out."
    )
    EL089 = _error(
        "ELMo can't stand at '{found}'. The places are 'input', 'output' and both of "
        "them (at = 'both', --at both)."
    )
    EL090 = _error(
        "No component of this pipeline listens to an 'elmo', so there are no mixes. A "
        "listener is spacy-elmo.ElmoListener.v1 in a component's model."
    )
    EL091 = _error(
        "'{name}' can't listen to 'elmo': {problem} component. Choose from tagger, "
        "morphologizer, ner, parser, senter, textcat, spancat, trainable_lemmatizer or "
        "any other factory whose model has a tok2vec."
    )
    EL094 = _error(
        "Similarity in context is of tokens, spans and Docs, not of a {found}.",
        TypeError,
    )
    EL095 = _error(
        "spacy-elmo.Tok2Vec.v1 has no weights: they are saved with its component, "
        "whose listeners were replaced, and do not come with the configuration. Take "
        "the component from the pipeline that has it (source = PATH), or train it on "
        "an 'elmo' component, with spacy-elmo.ElmoListener.v1 in this place."
    )
    EL141 = _error(
        "spacy-elmo.Encode.v1 was initialised without Docs, so it does not know that "
        "its own vectors have {found} columns, not {expected}. Initialise the pipeline "
        "with examples, or set width = {found} there and in its encoder."
    )
    EL144 = _error(
        "spacy-elmo.Encode.v1 has width = {found}, but its encoder reads vectors of "
        "width {expected}. Give both the same width."
    )
    EL140 = _error(
        "doc.tensor has {found} vectors for {expected} tokens: tokens were merged or "
        "split after 'elmo' had read the Doc. Let elmo read it again, doc = "
        "nlp.get_pipe('elmo')(doc), or name a layer to compare."
    )
    EL142 = _error(
        "Vectors of widths {widths} can't be compared: they are of two models. Read "
        "both Docs with the same pipeline, or name a layer to compare."
    )
    EL143 = _error(
        "'{name}' is no 'elmo' component. Name one in spacy-elmo.UseLayerCache.v1 or "
        'spacy-elmo.Unfreeze.v1 (name = "elmo").'
    )
    EL145 = _error(
        "Can't read '{path}' as vectors of words: {problem}. The file is damaged or "
        "holds something else; take an undamaged copy."
    )
    EL146 = _error(
        "There are no vectors of words in '{path}', which would be a file '{file}'. "
        "Name a model that has some; of those that ship, {names} does.",
        FileNotFoundError,
    )
    EL147 = _error(
        "'spacy-elmo.Words.v1' has no vectors yet. Call nlp.initialize(), which reads "
        "them, or load a pipeline that was saved with them."
    )
    # Vectors of whole corpora
    EL201 = _error(
        "'{path}' has another plan; what differs: {differs}. Choose another --output, "
        "or repeat what the plan was made with."
    )
    EL202 = _error(
        "'{path}' is damaged: {error}. Without its plan a folder can't be "
        "continued; start in another one."
    )
    EL203 = _error(
        "'{path}' needs about {needed}, and {free} are free. What would fit in a new "
        "folder: {smaller}.",
        OSError,
    )
    EL204 = _error(
        "'{path}' has other contents than when the plan was made. Restore it as it "
        "was, or make a new plan in another folder."
    )
    EL205 = _error(
        "'{path}', line {line}: {problem}. Mend or remove the line: none is skipped in "
        "silence."
    )
    EL206 = _error(
        "There is no text to embed: no input is named, or all are empty. Name files, "
        "or - for standard input. To continue a plan, leave out the model, too."
    )
    EL207 = _error("{name} = '{found}' is not possible. Choose from: {known}.")
    EL208 = _error(
        "'{path}' is not a whole shard: {error}. 'spacy elmo embed repair' makes "
        "it again."
    )
    EL209 = _error(
        "The model '{model}' is not the one that the plan was made with: its "
        "fingerprint is another. Restore it, or make a new plan in another "
        "folder."
    )
    EL210 = _error(
        "A vector has values that are not finite as {dtype}. Keep them as float32; if "
        "it is so there too, the weights are damaged."
    )
    EL211 = _error(
        "This needs {name}, which is missing: pip install 'spacy-elmo[{extra}]' "
        "({error}).",
        ImportError,
    )
    EL212 = _error(
        "Processes end before they begin. Most often memory is what they lack: run the "
        "same command again with fewer processes than {processes}. In a script, what "
        "starts them has to stand under 'if __name__ == \"__main__\":'.",
        OSError,
    )
    EL213 = _error(
        "{n} documents in '{path}' have the id '{key}', where one is asked for. Ask by "
        "number: the first document is 0.",
        KeyError,
    )
    EL214 = _error(
        "'{path}' has no plan. 'spacy elmo embed run MODEL INPUT... --output {path}' "
        "makes one.",
        FileNotFoundError,
    )
    EL215 = _error(
        "No mix of layers of '{name}' can be taken from '{source}'. It needs a "
        "pipeline with an 'elmo' component and, for a component's mix, one listener in "
        "it; the layers of a mix of the kind 'concat' are not added up: take 'all'."
    )
    EL216 = _error(
        "Document '{key}' has other tokens than this Doc. Tokenise the same text as "
        "the plan does."
    )
    EL217 = _error(
        "'{path}' is not finished: {left} jobs are not done. 'spacy elmo embed run' "
        "makes what is missing."
    )
    EL218 = _error(
        "This needs one vector of each token. The folder has one of each {pool}, and "
        "{n} layers side by side. Write another one with --pool token, and --layers "
        "average, top or mix."
    )
    EL222 = _error(
        "Without a model and inputs the plan in '{path}' is continued as it is. Leave "
        "out what would change it: {options}."
    )
    EL223 = _error(
        "'{path}' has files that end in '{suffix}'. Replace those that are named as "
        "shards with --force, or write to another folder."
    )
    # Files of text
    EL230 = _error(
        "'{path}' is not running text: it is {what}. To read what it says, {way_out}."
    )
    EL231 = _error(
        "'{path}' is named as CoNLL-U and has {problem}: {line!r}. Give it another "
        "ending if it is text; {way_out}."
    )
    EL232 = _error(
        "The folder '{path}' has no files of text (hidden ones are not read)."
    )
    # Looking into a biLM
    EL082 = _error("'{pattern}' is not a word or regular expression: {error}.")
    EL083 = _error(
        "There is no layer {layer}: the token layer is 0, the last one {last}."
    )
    EL084 = _error("No '{word}' in '{where}', so there are no contexts to compare.")
    EL220 = _error(
        "Can't read '{path}' as a corpus of Docs: {error}. 'spacy convert' makes such "
        "'.spacy' files; text has another ending."
    )
    EL221 = _error(
        "A page shows sentences of 1 to {limit} tokens; this one has {found}. Take a "
        "part of it."
    )
    # What is gone
    EL240 = _error("'{name}' is gone: {instead}.")
    EL241 = _error(
        "The architecture 'spacy-elmo.{name}' is gone, since spaCy has its own. Write "
        "{instead} in its place, and train the component again. Version 0.2 of "
        "spacy-elmo loads what was trained with it."
    )
    # Benchmarks and plots
    EL061 = _error(
        "'{path}' is of another program: its model is not replaced. Choose another "
        "folder, or remove that file."
    )
    EL073 = _error("'{found}' is not known here. Choose from: {known}.")
    EL074 = _error("Can't draw '{path}': {problem}.")
    EL075 = _error(
        'Plots need matplotlib: pip install "spacy-elmo[plot]" ({error}).', ImportError
    )


class Warnings(metaclass=_Table):
    """Warnings, by code."""

    ELW01 = _warning(
        "A Doc without sentence boundaries is read by '{name}' {how}. Put a "
        "'sentencizer', 'senter' or 'parser' before '{name}', so that each sentence is "
        "read whole and by itself."
    )
    ELW64 = _warning(
        "A Doc without sentence boundaries came to '{name}', though '{setter}' stands "
        "before it. In training, only the components of [training] "
        "annotating_components annotate Docs: add '{setter}' there (or to annotates of "
        "nlp.update), so that sentences are read as they are at prediction."
    )
    ELW03 = _warning(
        "'{name}' starts from random weights, since none were named for it, and is "
        "trained only through the components that listen to it."
    )
    ELW04 = _warning(
        "'{name}' was not initialised and had no weights when a listener asked for its "
        "layers, so it took those of this package. Call nlp.initialize first, or name "
        "weights in its section."
    )
    ELW05 = _warning(
        "'{path}', line {line} has more than {length:,} characters, and is read in "
        "pieces of about that length. Text is best given a sentence or paragraph a "
        "line."
    )
    ELW07 = _warning(
        "The layer cache {where} takes no more: it has reached layer_cache_mb = {mb}, "
        "or the disk is full ({error}). What is not in it is computed again each time; "
        "if it holds sentences of other weights, remove it to start again."
    )
    ELW08 = _warning(
        "The layer cache {where} holds only layers of other weights or settings, which "
        "are not used. Several biLMs can share a file. If nothing needs the others any "
        "more, remove it, since they take its room."
    )
    ELW06 = _warning(
        "The GPU's memory does not hold {tokens} tokens at once, so they are computed "
        "in smaller batches, after a failure each time. Set batch_tokens = {fits}, or "
        "read fewer Docs at once."
    )
    ELW20 = _warning(
        "A mix that listens to '{name}' was trained with other weights than '{name}' "
        "has: vectors mean something else there, though their sizes fit. Use the biLM "
        "that it was trained with, or train the component again."
    )
    ELW21 = _warning(
        "'{other}' stands after '{name}' and overwrites its doc.tensor, so that "
        "token.vector is a vector of '{other}'. Put '{other}' "
        "before '{name}' if nothing listens to it; or set set_tensor = false in "
        "[components.{name}] if that is meant. spacy_elmo.similarity compares the "
        "vectors of '{name}' all the same."
    )
    ELW22 = _warning(
        "'{other}' listens to a tok2vec that stands before '{name}', and reads "
        "doc.tensor at prediction. So '{name}' leaves doc.tensor as it is, as with "
        "set_tensor = false, and doc._.elmo.layers and spacy_elmo.similarity have its "
        "vectors. To have them in doc.tensor, put '{name}' after '{other}'."
    )
    ELW23 = _warning(
        "Layers were released before all listeners had read them, since they take more "
        "than max_layers_mb = {mb}, and are computed again. Read fewer Docs at once, "
        "nlp.pipe(..., batch_size=...), or raise max_layers_mb."
    )
    ELW24 = _warning(
        "'{name}' has a layer cache and is trained now (frozen = false). Layers of a "
        "biLM that is trained are never the same again, so the cache is given up."
    )
    ELW25 = _warning(
        "'{name}' was sourced or loaded, and so not initialised: nothing of "
        "[initialize.components.{name}] is used for this training, and no layer cache. "
        "nlp.get_pipe('{name}').use_layer_cache("
        "'memory') keeps layers for the next epoch, with None for none; in a "
        'configuration, @callbacks = "spacy-elmo.UseLayerCache.v1" in '
        "[initialize.before_init] does."
    )
    ELW26 = _warning(
        "{error} Until then, layers are computed again each time: the cache is not "
        "used any more."
    )
    ELW27 = _warning(
        "The biLM does not learn from a component, since that reads other Docs than "
        "the update has. entity_linker does so, which makes Docs of sentences; "
        "nlp.rehearse; and nlp.update if it excludes 'elmo'. Or tokens were merged or "
        "split after "
        "'elmo' had read them: put 'elmo' after the component that does it. Otherwise "
        "freeze the biLM, or ignore the warning if other components train it."
    )
    ELW61 = _warning(
        "The model is read without its vocabulary: {error} Vectors do not depend on "
        "it, a softmax does. Replace that file, or remove it."
    )
    ELW62 = _warning(
        "The vocabulary of '{path}' has no <UNK>, so words that it does not have are "
        "read as its first one, {first!r}. In 'vocab.txt' name the entry that stands "
        "for unknown words <UNK>."
    )
    ELW60 = _warning(
        "'{path}' comes with a mix of its layers that was trained, and '{name}' makes "
        "the plain average. For the trained one set mix_weights = {weights} and gamma "
        "= {gamma} in [components.{name}], as 'spacy elmo info {path} --config' prints."
    )
    ELW52 = _warning(
        "'{path}' has no checksum, because it was edited or made by another program: "
        "damage to it is not noticed. Load it and save it again for one."
    )
    ELW51 = _warning(
        "The state that empty sentences lead to is not reached in {passes} passes: "
        "cells of a model without cell_clip may grow for ever. start = 'boundary' is "
        "the state after these passes; start = 'zeros' does not depend on their number."
    )
    ELW53 = _warning(
        "The biLM is on the CPU: on {device}, which spaCy prefers here, its recurrent "
        "steps would wait for each other. Other components use {device}."
    )
    ELW57 = _warning(
        "set_exact does nothing any more: on a CPU a sentence always has the same "
        "vectors, bit for bit, in any batch. Leave it out.",
        DeprecationWarning,
    )
    ELW56 = _warning(
        "The corpora of this run were split into words in different ways, so words of "
        "one may be unknown in another: {how}. Prepare them with the same --lang, "
        "--tokenizer and --sentences, which [text] sets for files."
    )
    ELW63 = _warning(
        "'{path}' looks like {what}, and is read as running text, line by line: "
        "{line!r}. If it is not text, convert it first."
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
    ELW55 = _warning(
        "Matrices were multiplied by '{before}' until this checkpoint, which does not "
        "run on this device or with this torch. The run goes on by '{now}', so what is "
        "computed from here on is rounded differently."
    )


def __getattr__(name: str) -> Any:
    """Return the class of a code: what unpickles a warning may look for it here."""
    for table in (Errors, Warnings):
        if name.startswith("EL") and name in vars(table):
            return vars(table)[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
