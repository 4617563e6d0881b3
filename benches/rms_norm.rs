//! rms_norm against the chain of Burn's primitive ops that it replaces, forward and with gradients.

#![allow(missing_docs, deprecated)]

use std::hint::black_box;

use burn::tensor::{Device, Distribution, Tensor};
use burn_armature::core::Rest;
use burn_armature::{RmsNorm, rms_norm};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const EPSILON: f64 = 1e-6;

type Norm = fn(Tensor<2>, Tensor<1>) -> Tensor<2>;

fn fused(x: Tensor<2>, weight: Tensor<1>) -> Tensor<2> {
    rms_norm(x, Some(weight), EPSILON)
}

/// The op's composite: Burn's primitive ops, with Burn's gradients.
fn chain(x: Tensor<2>, weight: Tensor<1>) -> Tensor<2> {
    let inputs = (x.into_dispatch(), Some(weight.into_dispatch()));
    let y = RmsNorm { epsilon: EPSILON }.composite_on_dispatch(inputs);
    Tensor::from_dispatch(y.expect("rms_norm has a composite"))
}

fn bench(criterion: &mut Criterion) {
    for (backend, device) in [("flex", Device::flex()), ("ndarray", Device::ndarray())] {
        for [rows, hidden] in [[1, 4096], [512, 1024], [2048, 4096]] {
            let mut group =
                criterion.benchmark_group(format!("rms_norm/{backend}/{rows}x{hidden}"));
            group.sample_size(20);
            group.throughput(Throughput::Bytes((rows * hidden * 4 * 2) as u64));
            let normal = Distribution::Normal(0.0, 1.0);
            let x = Tensor::<2>::random([rows, hidden], normal, &device);
            let weight = Tensor::<1>::random([hidden], normal, &device);
            for (way, norm) in [("chain", chain as Norm), ("fused", fused)] {
                group.bench_function(format!("forward/{way}"), |bencher| {
                    bencher.iter(|| norm(black_box(x.clone()), weight.clone()));
                });
                let x = x.clone().autodiff();
                let weight = weight.clone().autodiff();
                group.bench_function(format!("forward and backward/{way}"), |bencher| {
                    bencher.iter(|| {
                        let x = black_box(x.clone()).require_grad();
                        let weight = weight.clone().require_grad();
                        let grads = norm(x.clone(), weight.clone()).sum().backward();
                        (x.grad(&grads), weight.grad(&grads))
                    });
                });
            }
        }
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
