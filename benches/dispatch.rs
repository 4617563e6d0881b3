//! What a call costs besides its arm: the same trivial ops on tiny tensors, through Armature and
//! through Burn's `#[backend_extension]`.

#![allow(missing_docs, deprecated)]

use std::hint::black_box;
use std::time::Duration;

use armature_benches::{armature_identity, armature_plus, burn_identity, burn_plus};
use burn::tensor::{Device, Tensor};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};

fn dispatch(criterion: &mut Criterion) {
    type Call = fn(Tensor<1>, Tensor<1>) -> Tensor<1>;
    for (backend, device) in [("flex", Device::flex()), ("ndarray", Device::ndarray())] {
        let x = Tensor::<1>::from_floats([1.0, 2.0, 3.0, 4.0], &device);
        for (op, calls) in [
            (
                "identity",
                [
                    ("burn", burn_identity as Call),
                    ("armature", armature_identity),
                ],
            ),
            (
                "plus",
                [("burn", burn_plus as Call), ("armature", armature_plus)],
            ),
        ] {
            let mut group = criterion.benchmark_group(format!("{op}/{backend}"));
            group
                .measurement_time(Duration::from_secs(4))
                .sample_size(200);
            for (way, call) in calls {
                group.bench_function(way, |bencher| {
                    bencher.iter_batched(
                        || (x.clone(), x.clone()),
                        |(x, y)| call(black_box(x), black_box(y)),
                        BatchSize::SmallInput,
                    );
                });
            }
        }
    }
}

criterion_group!(benches, dispatch);
criterion_main!(benches);
