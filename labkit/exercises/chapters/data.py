"""Chapter 03: what the learner is asked about data."""

from labkit.exercises.chapters import (
    data_collate,
    data_draws,
    data_flip,
    data_folder,
    data_groups,
    data_shared,
    data_statistics,
    data_weights,
)
from labkit.exercises.exercise import Chapter, Prediction
from labkit.exercises.parts import PARTS

PREDICTIONS = [
    Prediction(
        "last_batch",
        "A `DataLoader` over 103 samples with `batch_size=10`, and all else as it is by default. How many batches "
        "come, and how long is the last?",
        "11, the last of 3",
        {
            "10, the last of 10": "That is `drop_last=True`: three samples are not used in this epoch. By default "
            "nothing is dropped.",
            "10, the last of 13": "No batch is longer than `batch_size`. What is left over becomes a batch of its "
            "own, a short one.",
            "11, the last of 3": "Nothing is lost and nothing is filled up. A mean over the means of the batches "
            "would now count these three more than three times as much as others.",
            "11, the last of 10": "Then seven samples would come twice. That happens where several processes "
            "share an epoch and each must have as many; here nothing is filled up.",
        },
    ),
    Prediction(
        "same_noise",
        "A Dataset of eight samples makes its random generator in `__init__`, and draws one number for each sample. "
        "A `DataLoader` with two workers and `batch_size=1` reads it. How many *different* numbers come out?",
        "4",
        {
            "1": "Within one worker the generator goes on: its samples get different numbers.",
            "2": "Two generators there are, one in each worker. Each goes on with every draw, so each gives four "
            "different numbers. But both give the same four.",
            "4": "Each worker has a copy of the generator, in the same state. Every number comes twice.",
            "8": "So it is without workers. Each worker gets a *copy* of the Dataset, and with it a copy of the "
            "generator in the same state: both draw the same four numbers.",
        },
    ),
    Prediction(
        "never_seen",
        "900 pictures of one class, 100 of another. A sampler draws 1,000 times, with replacement, both classes "
        "equally often. Which share of the 900 does *not* come in this epoch?",
        "about 57 %",
        {
            "none": "1,000 draws, but only half of them go to this class: 500 draws cannot reach 900 pictures.",
            "about 10 %": "The class gets half of the draws, 500 for 900 pictures, and some pictures come twice.",
            "about 57 %": "500 draws for 900 pictures, some twice: (1 - 1 / 900) to the power of 500 is 0.57. An epoch "
            "is no longer *all the data*, and a picture of the rare class comes five times.",
            "about 90 %": "That would be 100 of 900, as many as the other class has. But both get 500 draws.",
        },
    ),
    Prediction(
        "two_workers",
        "The pictures already lie in memory, as one tensor. How is a `DataLoader` with two workers, beside one "
        "with none?",
        "slower",
        {
            "faster": "Workers help where a sample is *work*: opening files, decoding pictures. Here a sample is one "
            "index into a tensor, and starting processes and handing over the batches costs more than that.",
            "as fast": "Two processes have to start, and each batch has to travel from one to the other. Here that "
            "costs more than the work they take over.",
            "slower": "There is nothing to do that is worth a process: starting two and handing over batches costs "
            "more than it saves. Measure before you set `num_workers`.",
        },
    ),
    Prediction(
        "whole_batch_draw",
        "`v2.RandomHorizontalFlip(0.5)` of torchvision gets a batch of eight pictures in one call. How many of the "
        "eight are mirrored?",
        "all or none",
        {
            "all or none": "One call is one draw, whatever is in it. In a batch all pictures share their luck; use it "
            "sample by sample, or draw once for each picture yourself.",
            "about half": "So it should be. But the transform draws once a *call*, not once a picture: all eight are "
            "mirrored, or none is.",
            "none": "It does take batches: the last two axes are height and width, and all before them may be "
            "anything. It draws once, for all of them.",
            "all": "In about half of the calls, and in the other half none. One call is one draw.",
        },
    ),
]

CHAPTER = Chapter(
    "03_data",
    [
        data_folder.PICTURE_FOLDER,
        PARTS["batches"],
        data_collate.PAD_BATCH,
        data_collate.KEEP_WHOLE_SAMPLES,
        data_statistics.CHANNEL_STATISTICS,
        data_flip.FLIP_BATCH,
        data_draws.DRAW_FOR,
        data_weights.BALANCING_WEIGHTS,
        data_groups.SPLIT_GROUPS,
        data_shared.SHARED_PICTURES,
    ],
    PREDICTIONS,
)
