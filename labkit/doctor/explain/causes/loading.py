"""Data sets, loaders, batches and worker processes."""

import ast
import re

from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import named, numbers, shape
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.history import names_in
from labkit.doctor.explain.situation import Situation

_COLLATE = (
    "The samples of a batch are put side by side: they must be tensors of one shape, or numbers, lists or dicts of "
    "them."
)


def _in_collate(situation: Situation) -> bool:
    return any("collate" in place.function for place in situation.raised.library_places)


def loader_name(situation: Situation) -> str:
    """Return the user's name for the loader, "" if it has none."""
    places = (*situation.raised.outside, *situation.raised.places)
    for place in reversed([one for one in places if one.is_of_user]):
        for variables in (place.variables, place.global_variables):
            for name, value in variables.items():
                if type(value).__name__ == "DataLoader" and not name.startswith("_"):
                    return name
    return ""


@explains(
    "collate",
    "RuntimeError TypeError KeyError ValueError",
    r"stack expects each tensor to be equal size, but got \[([\d, ]*)\] at entry \d+ and \[([\d, ]*)\] at entry (\d+)",
    r"(each element in list of batch should be of equal size)",
    r"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found (?:<class "
    r"')?(?P<type>[\w.]+)",
    r"expected Tensor as element \d+ in argument 0, but got (?P<type>[\w.]+)",
    r"new\(\): invalid data type '(?P<type>\w+)'",
    r"Could not infer dtype of (?P<type>\w+)",
    r"functions with (?P<grad>out)=\.\.\. arguments don't support automatic differentiation",
)
def samples(match: re.Match, situation: Situation) -> Reason | None:
    """Explain samples that cannot become a batch: of other sizes, None, pictures that are no tensors."""
    if not _in_collate(situation):
        return None
    loader = loader_name(situation)
    found = match.groupdict()
    kind = (found.get("type") or "").rpartition(".")[2]
    if kind == "NoneType":
        what = "A sample, or a part of one, is None."
        causes = (
            Cause(
                "`__getitem__` has a path without return, or gives None for a file it cannot read.",
                "return image, label  # at the end of __getitem__",
            ),
            Cause(
                "Or the samples that are None are to be left out.",
                "collate_fn=lambda batch: default_collate([one for one in batch if one is not None])",
            ),
        )
    elif kind in ("Image", "PngImageFile", "JpegImageFile", "BmpImageFile"):
        what = "The samples are pictures of PIL, not tensors."
        causes = (Cause("The transform that makes tensors is missing.", "transform=torchvision.transforms.ToTensor()"),)
    elif found.get("grad"):
        what = "The samples are part of a graph."
        causes = (Cause("A sample is data: it has no gradient.", "return x.detach()"),)
    elif kind:
        what = f"The samples hold a {kind}."
        causes = (
            Cause(
                "Only numbers, tensors, arrays, texts, lists and dicts can be put together.",
                f"torch.as_tensor(…)  # in __getitem__, in place of the {kind}",
            ),
            Cause("Or the batch is put together in another way.", "DataLoader(…, collate_fn=your_function)"),
        )
    elif match[1].startswith("each"):
        what = "The samples are lists of other lengths."
        causes = (
            Cause(
                "Sequences are filled up to the longest of the batch.",
                "collate_fn=lambda batch: pad_sequence([torch.tensor(one) for one in batch], batch_first=True)",
            ),
        )
    else:
        what = f"One sample is {shape(numbers(match[1]))}, another {shape(numbers(match[2]))}."
        picture = len(numbers(match[1])) == 3
        fit = Cause(
            "The pictures must get one size.", "transforms.Resize((224, 224))  # and the same number of channels"
        )
        fill = Cause(
            "Sequences are filled up to the longest of the batch.",
            "collate_fn=lambda batch: pad_sequence(batch, batch_first=True)",
        )
        causes = (fit, fill) if picture else (fill, fit)
    return Reason(what, _COLLATE, causes, named(loader))


@explains(
    "loader-use",
    "ValueError AssertionError TypeError",
    r"(num_samples) should be a positive integer value, but got num_samples=0",
    r"(sampler) option is mutually exclusive with shuffle",
    r"(batch_sampler) option is mutually exclusive with",
    r"(Size mismatch) between tensors",
    r"'DataLoader' object is not (subscriptable|an iterator)",
    r"object of type '(\w+)' has no (?:len)\(\)",
    r"(Sum of input lengths) does not equal the length of the input dataset",
)
def use(match: re.Match, situation: Situation) -> Reason | None:
    """Explain an empty data set, options that exclude each other, a loader that is indexed."""
    data = situation.argument(0, "dataset")
    loader = loader_name(situation) or "loader"
    names = [data if data.isidentifier() else ""]
    rule = "A DataLoader draws batches from a data set that has a length and gives samples by number."
    match match[1]:
        case "num_samples":
            what = f"`{data or 'The data set'}` is empty."
            causes = [
                Cause(
                    "It found no files, or a filter left nothing: the path, the ending or the split is wrong.",
                    f"len({data or 'dataset'})  # and the path it looks in",
                )
            ]
        case "sampler":
            what = "`sampler` and `shuffle` were both given."
            causes = [
                Cause(
                    "The sampler says the order.",
                    f"DataLoader({data or 'dataset'}, sampler={situation.argument(99, 'sampler') or 'sampler'}, "
                    "shuffle=False)",
                )
            ]
            names.append(situation.argument(99, "sampler"))
        case "batch_sampler":
            what = "`batch_sampler` was given together with options that it decides itself."
            causes = [
                Cause(
                    "Leave out batch_size, shuffle, sampler and drop_last.",
                    f"DataLoader({data or 'dataset'}, "
                    f"batch_sampler={situation.argument(99, 'batch_sampler') or 'batch_sampler'})",
                )
            ]
            names.append(situation.argument(99, "batch_sampler"))
        case "Size mismatch":
            tensors = [one for one in situation.focus if hasattr(one.value, "shape")]
            what = (
                "The tensors have other lengths: "
                + ", ".join(f"`{one.name}` {shape(one.value)}" for one in tensors)
                + "."
            )
            rule = "A TensorDataset takes one sample from each tensor: all have the same first size."
            causes = [
                Cause(
                    "They are from different splits, or one of them was filtered or transposed.",
                    f"assert len({tensors[0].name if tensors else 'x'}) == len({tensors[-1].name if tensors else 'y'})",
                )
            ]
            names = [one.name for one in tensors]
        case "subscriptable":
            written = next((one.name for one in situation.operands if type(one.value).__name__ == "DataLoader"), loader)
            what = f"`{written}` gives batches one after the other; it has no numbers."
            causes = [
                Cause("The first batch:", f"next(iter({written}))"),
                Cause("A sample by its number, from the data set:", f"{written}.dataset[0]"),
            ]
            names = [written]
        case "an iterator":
            written = next((one.name for one in situation.operands if type(one.value).__name__ == "DataLoader"), loader)
            what = f"`{written}` can be gone through, and `next` wants what goes through it."
            causes = [Cause("Make the iterator first.", f"next(iter({written}))")]
            names = [written]
        case "Sum of input lengths":
            what = "The lengths do not add up to the data set."
            rule = "random_split gives every sample to one part."
            causes = [
                Cause("Give shares, or compute the last length.", f"random_split({data or 'dataset'}, [0.8, 0.2])")
            ]
        case kind:
            if not any(re.search(r"[/\\]utils[/\\]data[/\\]", place.file) for place in situation.raised.library_places):
                return None
            what = f"`{data or kind}` is a {kind} without a length."
            causes = [Cause("The data set needs a method for it.", "def __len__(self):\n    return len(self.…)")]
            names.append(kind)
    return Reason(what, rule, tuple(causes), named(*names))


@explains("loader-use", "ValueError", r"(not enough|too many) values to unpack \(expected (\d+)(?:, got (\d+))?\)")
def unpacked(match: re.Match, situation: Situation) -> Reason | None:
    """Explain a batch that has another number of parts than variables."""
    if situation.source.parts == () or not isinstance(situation.source.parts[0], ast.Tuple):
        return None
    target, iterated = situation.source.parts[0], situation.source.parts[-1]
    loaders = [one for one in situation.operands if type(one.value).__name__ == "DataLoader"]
    if not loaders:
        return None
    wanted, written = ast.unparse(target).strip("()"), ast.unparse(iterated)
    data = getattr(loaders[0].value, "dataset", None)
    parts = match[3] or ("more" if match[1] == "too many" else "fewer")
    names = names_in(ast.parse(written, mode="eval"))
    causes = []
    if type(data).__name__ == "TensorDataset" and len(data.tensors) == 1:
        first = wanted.partition(",")[0]
        causes.append(
            Cause(
                "The data set holds one tensor, so a batch is a list of one: there are no targets.",
                f"TensorDataset({first}, targets)",
            )
        )
        causes.append(Cause("Or only the inputs are wanted.", f"for ({first},) in {written}:"))
    elif match[1] == "too many" and int(match[2]) == 2:
        causes.append(Cause("The batch is one tensor, or has more parts; look at one.", f"next(iter({written}))"))
        causes.append(
            Cause("With enumerate, the number comes first.", f"for number, ({wanted}) in enumerate({written}):")
        )
    else:
        causes.append(
            Cause("`__getitem__` gives another number of parts.", f"next(iter({written}))  # how many parts has it?")
        )
    if "enumerate" in written:
        number, _, rest = wanted.partition(", ")
        causes = [Cause("enumerate gives pairs: the number, and the batch.", f"for {number}, ({rest}) in {written}:")]
    return Reason(
        f"A batch of `{written}` has {parts} part{'s' if parts != '1' else ''}, and `{wanted}` wants {match[2]}.",
        "A batch has as many parts as `__getitem__` of the data set returns.",
        tuple(causes),
        named(*(name for name in names if name not in ("enumerate", "tqdm")), *wanted.split(", ")),
    )
